// plumb synth through the program: what it writes opens, is finite, and depends on options and seed alone.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/blocks.h"
#include "format/checkpoint.h"
#include "model/arch/table.h"
#include "model/open_tokenizer.h"
#include "subprocess.h"

namespace plumb {
namespace {

using nlohmann::json;
using test::Finished;
using test::run_plumb;

json synth(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"synth", "--json", "-q"});
  const Finished done = run_plumb(arguments);
  EXPECT_EQ(done.status, 0) << done.out << done.err;
  return done.status == 0 ? json::parse(done.out) : json::object();
}

// Every tensor of the architecture is there in its shape, and no other.
void expect_complete(const std::string& path) {
  const auto checkpoint = format::Checkpoint::open(path);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().to_string();
  const auto spec = model::read_spec(checkpoint.value());
  ASSERT_TRUE(spec.ok()) << spec.error().to_string();
  const auto weights = model::read_weights(checkpoint.value(), spec.value());
  EXPECT_TRUE(weights.ok()) << weights.error().to_string();
  const auto tokenizer = model::open_tokenizer(checkpoint.value());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().to_string();
  EXPECT_EQ(tokenizer->vocab_size(), spec->vocab);
}

// All elements of a tensor as numbers.
std::vector<float> decoded(const format::TensorView& tensor) {
  const auto* at = reinterpret_cast<const std::uint8_t*>(tensor.data.data());
  std::vector<float> out(tensor.elements());
  const DTypeInfo& type = dtype_info(tensor.dtype);
  for (std::size_t i = 0; i < out.size(); i += type.block_elements, at += type.block_bytes) {
    std::uint16_t half = 0;
    switch (tensor.dtype) {
      case DType::f32: std::memcpy(&out[i], at, 4); break;
      case DType::bf16: std::memcpy(&half, at, 2); out[i] = blocks::bf16_to_float(half); break;
      case DType::f16: std::memcpy(&half, at, 2); out[i] = blocks::f16_to_float(half); break;
      case DType::mxfp4: blocks::decode_mxfp4(at, &out[i]); break;
      case DType::q8_0: blocks::decode_q8_0(at, &out[i]); break;
      case DType::q4_0: blocks::decode_q4_0(at, &out[i]); break;
      default: ADD_FAILURE() << to_string(tensor.dtype);
    }
  }
  return out;
}

struct Moments {
  double mean = 0;
  double rms = 0;
  bool finite = true;
};
Moments moments(const std::vector<float>& values) {
  Moments m;
  for (const float value : values) {
    m.finite = m.finite && std::isfinite(value);
    m.mean += value;
    m.rms += static_cast<double>(value) * value;
  }
  m.mean /= static_cast<double>(values.size());
  m.rms = std::sqrt(m.rms / static_cast<double>(values.size()));
  return m;
}

TEST(Synth, SameSeedSameBytesWhateverTheThreads) {
  const test::ScratchFolder scratch;
  std::string digest;
  for (const char* threads : {"1", "2", "5"}) {
    const std::string file = scratch.file(std::string("t") + threads);
    const json done = synth({"--threads", threads, "--seed", "7", "--hidden", "256", "--vocab", "2000", "-o", file});
    if (digest.empty()) digest = done.at("digest");
    EXPECT_EQ(done.at("digest"), digest) << threads;
  }
  EXPECT_EQ(test::read_file(scratch.file("t1")), test::read_file(scratch.file("t2")));
  EXPECT_EQ(test::read_file(scratch.file("t1")), test::read_file(scratch.file("t5")));
  EXPECT_NE(synth({"--seed", "8", "--hidden", "256", "--vocab", "2000", "-o", scratch.file("other")}).at("digest"), digest);
}

// The bytes of one seed are a promise: recorded results name a model by preset and seed.
TEST(Synth, TinyIsPinned) {
  const test::ScratchFolder scratch;
  EXPECT_EQ(synth({"-o", scratch.file("a")}).at("digest"), "6279734852010b98021887ac20e613bc");
  EXPECT_EQ(synth({"--hf", scratch.file("b")}).at("digest"), "976ad75cac64ba7ccef71e26bc8968eb");
  EXPECT_LT(test::read_file(scratch.file("a")).size(), 500'000U);
}

TEST(Synth, HybridTinyIsPinnedAndComplete) {
  const test::ScratchFolder scratch;
  const json done = synth({"--preset", "hybrid-tiny", "--hf", scratch.file("a")});
  EXPECT_EQ(done.at("digest"), "1a3191a8f0372a5b16d36559b77dcae9");
  EXPECT_EQ(done.at("geometry").at("recurrent_layers"), 2);
  expect_complete(scratch.file("a"));

  const json other = synth({"--preset", "hybrid-tiny", "--layer-types", "recurrent", "--layers", "3", "--recurrent-heads", "2", "--key-dim",
                            "24", "--value-dim", "40", "--attn", "f32", "--hf", scratch.file("b")});
  expect_complete(scratch.file("b"));
  const auto checkpoint = format::Checkpoint::open(scratch.file("b"));
  ASSERT_TRUE(checkpoint.ok());
  std::uint64_t elements = 0;
  for (const format::TensorView& tensor : checkpoint->tensors()) {
    elements += tensor.elements();
    EXPECT_TRUE(moments(decoded(tensor)).finite) << tensor.name;
  }
  EXPECT_EQ(other.at("parameters"), elements);
}

TEST(Synth, BothContainersAreComplete) {
  const test::ScratchFolder scratch;
  synth({"-o", scratch.file("tiny.gguf")});
  expect_complete(scratch.file("tiny.gguf"));
  synth({"--hf", scratch.file("tiny")});
  expect_complete(scratch.file("tiny"));
}

TEST(Synth, AnyGeometry) {
  const test::ScratchFolder scratch;
  const std::vector<std::vector<std::string>> cases = {
      {"--attn", "bf16", "--heads", "3", "--kv-heads", "3", "--head-dim", "8", "--hidden", "96", "--ffn", "32", "--experts", "5",
       "--top-k", "5", "--window", "1", "--vocab", "266", "--layers", "1"},
      {"--attn", "q4_0", "--embed", "f16", "--heads", "12", "--kv-heads", "4", "--head-dim", "24", "--hidden", "160", "--ffn", "96",
       "--experts", "1", "--top-k", "1", "--layers", "3"},
      {"--attn", "f32", "--heads", "1", "--kv-heads", "1", "--head-dim", "512", "--window", "1000", "--positions", "2048"},
      {"--attn", "f16", "--embed", "q4_0", "--vocab", "11487"},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    auto arguments = cases[i];
    const std::string file = scratch.file(std::to_string(i) + ".gguf");
    arguments.insert(arguments.end(), {"-o", file});
    synth(arguments);
    expect_complete(file);
  }
  synth({"--hf", scratch.file("pattern"), "--layer-types", "full,sliding,sliding", "--attn", "f16", "--layers", "5"});
  expect_complete(scratch.file("pattern"));
  const auto checkpoint = format::Checkpoint::open(scratch.file("pattern"));
  ASSERT_TRUE(checkpoint.ok());
  const auto spec = model::read_spec(checkpoint.value());
  ASSERT_TRUE(spec.ok());
  std::string windows;
  for (const auto& layer : spec->layers) windows += std::get<model::AttentionSpec>(layer.mixer).window == 0 ? 'f' : 's';
  EXPECT_EQ(windows, "fssfs");
}

TEST(Synth, RelationsThatMakeNoSenseAreUsageErrors) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases = {
      {"--heads", {"--heads", "5", "--kv-heads", "2"}},
      {"--head-dim", {"--head-dim", "12"}},
      {"--hidden", {"--hidden", "100"}},
      {"--ffn", {"--ffn", "100"}},
      {"--top-k", {"--top-k", "5"}},
      {"--vocab", {"--vocab", "265"}},
      {"--attn", {"--heads", "3", "--kv-heads", "3", "--head-dim", "8"}},
      {"--layer-types", {"--layer-types", "full,sliding"}},
      {"--layer-types", {"--layer-types", "sliding,wide"}},
      {"--layer-types", {"--layer-types", ""}},
      {"--embed", {"--embed", "q8_0", "--hf", "/no/such/folder"}},
      {"--layer-types", {"--layer-types", "recurrent,full"}},
      {"--key-dim", {"--key-dim", "8"}},
      {"-o", {"--preset", "hybrid-tiny"}},
      {"--top-k", {"--preset", "hybrid-tiny", "--top-k", "2"}},
  };
  const test::ScratchFolder scratch;
  for (const auto& [field, given] : cases) {
    std::vector<std::string> arguments = {"synth", "--json"};
    arguments.insert(arguments.end(), given.begin(), given.end());
    if (given.size() < 4 || given[2] != "--hf") arguments.insert(arguments.end(), {"-o", scratch.file("x")});
    const Finished done = run_plumb(arguments);
    EXPECT_EQ(done.status, 2) << field << done.err;
    EXPECT_EQ(json::parse(done.out).at("error").at("field"), field) << done.out;
  }
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

TEST(Synth, MatricesKeepTheScaleOfWhatPassesThrough) {
  const test::ScratchFolder scratch;
  for (const char* type : {"q8_0", "q4_0", "bf16", "f16", "f32"}) {
    synth({"--attn", type, "--hidden", "256", "--ffn", "128", "--vocab", "1000", "-o", scratch.file("x.gguf")});
    const auto checkpoint = format::Checkpoint::open(scratch.file("x.gguf"));
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().to_string();
    for (const format::TensorView& tensor : checkpoint->tensors()) {
      const Moments m = moments(decoded(tensor));
      EXPECT_TRUE(m.finite) << tensor.name;
      if (tensor.shape.size() < 2 || tensor.name.ends_with(".bias")) continue;
      const double expected = tensor.name == "token_embd.weight" ? 1.0 : 1 / std::sqrt(static_cast<double>(tensor.shape.back()));
      const double noise = 5 / std::sqrt(static_cast<double>(tensor.elements()));  // five standard deviations of the mean
      EXPECT_NEAR(m.rms / expected, 1.0, noise + 0.01) << type << " " << tensor.name;
      EXPECT_NEAR(m.mean / expected, 0.0, noise) << type << " " << tensor.name;
    }
  }
}

TEST(Synth, TokensEncodeToThemselvesInBothContainers) {
  const test::ScratchFolder scratch;
  const std::vector<std::string> size = {"--vocab", "12000", "--layers", "1"};
  std::vector<text::Tokenizer> tokenizers;
  for (const char* form : {"-o", "--hf"}) {
    const std::string path = scratch.file(std::string("m") + form + ".gguf");
    auto arguments = size;
    arguments.insert(arguments.end(), {form, path});
    synth(arguments);
    const auto checkpoint = format::Checkpoint::open(path);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().to_string();
    auto tokenizer = model::open_tokenizer(checkpoint.value());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().to_string();
    tokenizers.push_back(std::move(tokenizer).value());
  }
  for (const text::Tokenizer& tokenizer : tokenizers) {
    ASSERT_EQ(tokenizer.vocab_size(), 12000);
    for (std::int32_t id = 0; id < 11990; ++id) {
      const auto ids = tokenizer.encode(tokenizer.token_bytes(id));
      ASSERT_TRUE(ids.ok());
      ASSERT_EQ(ids.value(), std::vector<std::int32_t>{id}) << tokenizer.token_bytes(id);
    }
    EXPECT_EQ(tokenizer.special_id("<|return|>"), 11992);
    EXPECT_EQ(tokenizer.bos_id(), 11990);
  }
  const std::string text = "Once upon a time, banana \xF0\x9F\x8D\x8C WIDGETS 12345\n\n  did gadoze " + std::string(1000, 'e');
  const auto first = tokenizers[0].encode(text);
  const auto second = tokenizers[1].encode(text);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first.value(), second.value());
  EXPECT_EQ(tokenizers[0].decode(first.value()), text);
}

TEST(Synth, ShardsOpenAsOneModelAndAFolderIsNotMixed) {
  const test::ScratchFolder scratch;
  const std::vector<std::string> arguments = {"--hf", scratch.file("m"), "--shard-mb", "1", "--hidden", "256", "--ffn", "256"};
  const json done = synth(arguments);
  EXPECT_GT(done.at("files").size(), 3U);
  EXPECT_TRUE(std::filesystem::exists(scratch.file("m/model.safetensors.index.json")));
  expect_complete(scratch.file("m"));
  const Finished again = run_plumb({"synth", "--hf", scratch.file("m")});
  EXPECT_EQ(again.status, 1);
  EXPECT_NE(again.err.find("holds a checkpoint already"), std::string::npos) << again.err;
}

TEST(Synth, RefusesWhatTheDiskCannotHold) {
  const test::ScratchFolder scratch;
  const Finished done = run_plumb({"synth", "--preset", "gpt-oss-120b", "--layers", "4096", "--experts", "4096", "-o", scratch.file("x")});
  EXPECT_EQ(done.status, 1);
  EXPECT_NE(done.err.find("free"), std::string::npos) << done.err;
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

TEST(Synth, CtrlCLeavesNothingBehind) {
  const test::ScratchFolder scratch;
  const std::string file = scratch.file("big.gguf");
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl(PLUMB_BINARY, "plumb", "synth", "-q", "--preset", "moe-1b", "-o", file.c_str(), nullptr);
    ::_exit(127);
  }
  // The unfinished file appears only once the signal is being listened for.
  int status = 0;
  while (std::filesystem::is_empty(scratch.path()) && ::waitpid(child, &status, WNOHANG) == 0) std::this_thread::yield();
  ::kill(child, SIGINT);
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

}  // namespace
}  // namespace plumb
