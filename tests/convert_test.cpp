// plumb convert and plumb inspect through the program, on the bundled model, synthetic ones and llama2.c files.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/blocks.h"
#include "checkpoints.h"
#include "model/arch/table.h"
#include "model/open_tokenizer.h"
#include "subprocess.h"
#include "text/vocab_source.h"

namespace plumb {
namespace {

using nlohmann::json;
using test::Finished;
using test::open_checkpoint;
using test::run_json;
using test::run_plumb;

const std::string kStory = PLUMB_SOURCE_DIR "/models/story";

std::string bytes_of(const format::TensorView& tensor) {
  return {reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size()};
}

// The value of element k of row r of the source's split MXFP4 tensor.
float split_element(const format::Checkpoint& c, const std::string& name, std::uint64_t row, std::uint64_t k, std::uint64_t cols) {
  const format::TensorView& codes = *c.find(name + "_blocks");
  const format::TensorView& scales = *c.find(name + "_scales");
  const std::uint64_t block = row * (cols / 32) + k / 32;
  float values[32];
  blocks::decode_mxfp4_hf(reinterpret_cast<const std::uint8_t*>(codes.data.data()) + block * 16,
                          static_cast<std::uint8_t>(scales.data[block]), values);
  return values[k % 32];
}

float ggml_element(const format::TensorView& tensor, std::uint64_t row, std::uint64_t k) {
  const std::uint64_t block = row * (tensor.shape.back() / 32) + k / 32;
  float values[32];
  blocks::decode_mxfp4(reinterpret_cast<const std::uint8_t*>(tensor.data.data()) + block * 17, values);
  return values[k % 32];
}

TEST(Convert, StoryKeepsEveryNumber) {
  const test::ScratchFolder scratch;
  const std::string file = scratch.file("story.gguf");
  const json done = run_json({"convert", kStory, file});
  EXPECT_EQ(done.at("family"), "gpt_oss");
  EXPECT_EQ(done.at("tokens"), 4096);

  const format::Checkpoint from = open_checkpoint(kStory);
  const format::Checkpoint to = open_checkpoint(file);
  EXPECT_EQ(to.tensors().size(), done.at("tensors").size());
  const auto spec_from = model::read_spec(from);
  const auto spec_to = model::read_spec(to);
  ASSERT_TRUE(spec_from.ok() && spec_to.ok());
  ASSERT_TRUE(model::read_weights(to, spec_to.value()).ok());
  ASSERT_EQ(spec_from->layers.size(), spec_to->layers.size());
  EXPECT_EQ(spec_from->max_positions, spec_to->max_positions);
  EXPECT_EQ(spec_from->norm_eps, spec_to->norm_eps);
  for (std::size_t i = 0; i < spec_from->layers.size(); ++i) {
    const auto& a = std::get<model::AttentionSpec>(spec_from->layers[i].mixer);
    const auto& b = std::get<model::AttentionSpec>(spec_to->layers[i].mixer);
    EXPECT_EQ(a.window, b.window);
    EXPECT_EQ(a.head_dim, b.head_dim);
    EXPECT_TRUE(a.rope == b.rope);
    EXPECT_EQ(model::rope_frequencies(a.rope), model::rope_frequencies(b.rope));
  }

  // Matrices stay bf16, byte for byte.
  EXPECT_EQ(bytes_of(*to.find("token_embd.weight")), bytes_of(*from.find("model.embed_tokens.weight")));
  EXPECT_EQ(bytes_of(*to.find("blk.3.attn_output.weight")), bytes_of(*from.find("model.layers.3.self_attn.o_proj.weight")));
  // Vectors are widened.
  const format::TensorView& sinks = *to.find("blk.5.attn_sinks.weight");
  ASSERT_EQ(sinks.dtype, DType::f32);
  for (std::size_t i = 0; i < 8; ++i) {
    float value = 0;
    std::uint16_t half = 0;
    std::memcpy(&value, sinks.data.data() + i * 4, 4);
    std::memcpy(&half, from.find("model.layers.5.self_attn.sinks")->data.data() + i * 2, 2);
    EXPECT_EQ(value, blocks::bf16_to_float(half));
  }
  // Experts: every element of gate, up and down where the layout says it must be.
  const std::uint64_t hidden = 256, ffn = 256, experts = 8;
  const std::string prefix = "model.layers.2.mlp.experts.";
  for (std::uint64_t row = 0; row < experts * ffn; row += 7) {
    for (std::uint64_t k = 0; k < hidden; ++k) {
      ASSERT_EQ(ggml_element(*to.find("blk.2.ffn_gate_exps.weight"), row, k), split_element(from, prefix + "gate_up_proj", 2 * row, k, hidden));
      ASSERT_EQ(ggml_element(*to.find("blk.2.ffn_up_exps.weight"), row, k), split_element(from, prefix + "gate_up_proj", 2 * row + 1, k, hidden));
      ASSERT_EQ(ggml_element(*to.find("blk.2.ffn_down_exps.weight"), row, k), split_element(from, prefix + "down_proj", row, k, ffn));
    }
  }

  // The same ids for the same text.
  const auto first = model::open_tokenizer(from);
  const auto second = model::open_tokenizer(to);
  ASSERT_TRUE(first.ok() && second.ok());
  for (std::int32_t id = 0; id < 4096; ++id) {
    ASSERT_EQ(first->token_bytes(id), second->token_bytes(id)) << id;
    ASSERT_EQ(first->is_special(id), second->is_special(id)) << id;
    if (first->is_special(id)) continue;
    const auto a = first->encode(first->token_bytes(id));
    const auto b = second->encode(first->token_bytes(id));
    ASSERT_TRUE(a.ok() && b.ok());
    ASSERT_EQ(a.value(), b.value()) << id;
  }
  EXPECT_EQ(first->bos_id(), second->bos_id());
}

// Converting a synthetic Hugging Face checkpoint gives the synthetic GGUF of the same seed: two writers of one layout agree.
TEST(Convert, EqualsTheSyntheticTwin) {
  const test::ScratchFolder scratch;
  const std::vector<std::string> geometry = {"--attn", "bf16", "--hidden", "96", "--heads", "6", "--kv-heads", "3", "--head-dim", "8",
                                             "--ffn", "160", "--experts", "5", "--top-k", "3", "--vocab", "700", "--seed", "11"};
  for (const auto& target : {std::vector<std::string>{"--hf", scratch.file("hf")}, {"-o", scratch.file("twin.gguf")}}) {
    std::vector<std::string> arguments = {"synth"};
    arguments.insert(arguments.end(), geometry.begin(), geometry.end());
    arguments.insert(arguments.end(), target.begin(), target.end());
    run_json(arguments);
  }
  run_json({"convert", scratch.file("hf"), scratch.file("made.gguf"), "--threads", "3", "--name", "synthetic tiny (seed 11)"});
  EXPECT_EQ(test::read_file(scratch.file("made.gguf")), test::read_file(scratch.file("twin.gguf")));
}

TEST(Convert, RequantizesWhenAsked) {
  const test::ScratchFolder scratch;
  run_json({"convert", kStory, scratch.file("q8.gguf"), "--attn", "q8_0"});
  const format::Checkpoint to = open_checkpoint(scratch.file("q8.gguf"));
  EXPECT_EQ(to.find("output.weight")->dtype, DType::q8_0);
  EXPECT_EQ(to.find("blk.0.ffn_gate_inp.weight")->dtype, DType::f32);
  const auto spec = model::read_spec(to);
  ASSERT_TRUE(spec.ok());
  EXPECT_TRUE(model::read_weights(to, spec.value()).ok());
  // Against the codec itself.
  const format::Checkpoint from = open_checkpoint(kStory);
  const auto* source = reinterpret_cast<const std::uint16_t*>(from.find("lm_head.weight")->data.data());
  float values[32];
  std::uint8_t block[34];
  const std::size_t at = 12345;  // a block
  for (std::size_t i = 0; i < 32; ++i) values[i] = blocks::bf16_to_float(source[at * 32 + i]);
  blocks::encode_q8_0(values, block);
  EXPECT_EQ(std::memcmp(block, to.find("output.weight")->data.data() + at * 34, 34), 0);
}

// A copy of a small synthetic checkpoint with something changed.
class Changed {
 public:
  Changed() {
    run_json({"synth", "--hf", folder_.file("m"), "--layers", "2"});
  }
  std::string path() const { return folder_.file("m"); }
  std::string output() const { return folder_.file("out.gguf"); }
  void edit(const std::string& file, const std::function<void(json&)>& change) const {
    json document = json::parse(test::read_file(path() + "/" + file));
    change(document);
    std::ofstream(path() + "/" + file) << document.dump();
  }
  // Overwrites bytes of a tensor.
  void poke(const std::string& tensor, std::uint64_t offset, const std::string& bytes) const {
    std::uint64_t at = 0;
    {
      const format::Checkpoint c = open_checkpoint(path());
      at = c.find(tensor)->offset + offset;
    }
    std::fstream file(path() + "/model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file << bytes;
  }
  void expect_refused(const std::string& code, const std::string& field, std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {"convert", path(), output()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const json error = run_json(arguments, 1).at("error");
    EXPECT_EQ(error.at("code"), code) << error.dump();
    EXPECT_EQ(error.at("field"), field) << error.dump();
    EXPECT_FALSE(std::filesystem::exists(output()));
  }

 private:
  test::ScratchFolder folder_;
};

TEST(Convert, RefusesWhatTheContainerCannotSay) {
  const Changed m;
  const json original = json::parse(test::read_file(m.path() + "/config.json"));
  const std::vector<std::pair<std::string, std::function<void(json&)>>> cases = {
      {"layer_types", [](json& c) { c["layer_types"] = {"full_attention", "sliding_attention"}; }},
      {"swiglu_limit", [](json& c) { c["swiglu_limit"] = 6.5; }},
      {"rope_scaling.truncate", [](json& c) { c["rope_scaling"]["truncate"] = true; }},
      {"rope_scaling.beta_fast", [](json& c) { c["rope_scaling"]["beta_fast"] = 16; }},
      {"rope_scaling.beta_slow", [](json& c) { c["rope_scaling"]["beta_slow"] = 2; }},
      {"rope_scaling", [](json& c) { c["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 4.0}}; }},
  };
  for (const auto& [field, change] : cases) {
    m.edit("config.json", change);
    m.expect_refused("unsupported", field);
    m.edit("config.json", [&](json& c) { c = original; });
  }
  m.edit("tokenizer.json", [](json& t) { t["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "\\p{L}+"; });
  m.expect_refused("unsupported", "pre_tokenizer");
}

TEST(Convert, RefusesNumbersThatAreNone) {
  {
    const Changed m;
    m.poke("model.layers.1.mlp.experts.down_proj_scales", 5, "\xff");
    m.expect_refused("malformed", "model.layers.1.mlp.experts.down_proj_scales");
  }
  const Changed m;
  m.poke("lm_head.weight", 2 * 777, std::string("\x80\x7f", 2));  // an infinity in bf16
  run_json({"convert", m.path(), m.output()});                      // kept as it is
  std::filesystem::remove(m.output());
  m.expect_refused("malformed", "lm_head.weight", {"--attn", "q8_0"});
}

TEST(Convert, RefusesBrokenCheckpoints) {
  const Changed m;
  m.edit("config.json", [](json& c) { c["num_local_experts"] = 5; });
  const json error = run_json({"convert", m.path(), m.output()}, 1).at("error");
  EXPECT_EQ(error.at("code"), "shape_mismatch");
  EXPECT_EQ(run_json({"convert", "/no/such/model", m.output()}, 1).at("error").at("code"), "not_found");
  const json gguf = run_json({"synth", "-o", m.output()});
  EXPECT_EQ(run_json({"convert", m.output(), m.output() + "2"}, 1).at("error").at("code"), "unsupported");
  EXPECT_EQ(run_json({"convert", m.output(), m.output()}, 2).at("error").at("field"), "OUT");
}

// llama2.c files of known numbers: header, the weights in file order, and a tokenizer of 3 + 256 + 3 tokens.
struct Llama2c {
  std::array<std::int32_t, 7> header = {32, 24, 2, 4, 2, 262, 32};
  std::vector<float> weights;
  std::string tokenizer;

  std::string model() const {
    std::string out(reinterpret_cast<const char*>(header.data()), sizeof header);
    out.append(reinterpret_cast<const char*>(weights.data()), weights.size() * 4);
    return out;
  }
};

Llama2c llama2c(bool tied) {
  Llama2c f;
  if (!tied) f.header[5] = -f.header[5];
  const std::size_t count = 262 * 32 + 2 * (32 + 32 * 32 + 16 * 32 + 16 * 32 + 32 * 32 + 32 + 3 * 24 * 32) + 32 + 32 * 8 + (tied ? 0 : 262 * 32);
  for (std::size_t i = 0; i < count; ++i) f.weights.push_back(static_cast<float>(i) * 0.25F);
  const auto token = [&](std::string_view text, float score) {
    const auto length = static_cast<std::int32_t>(text.size());
    f.tokenizer.append(reinterpret_cast<const char*>(&score), 4).append(reinterpret_cast<const char*>(&length), 4).append(text);
  };
  f.tokenizer = std::string("\x06\0\0\0", 4);
  for (const char* control : {"<unk>", "\n<s>\n", "\n</s>\n"}) token(control, 0);
  for (int byte = 0; byte < 256; ++byte) {
    char spelled[8];
    std::snprintf(spelled, sizeof spelled, "<0x%02X>", byte);
    token(spelled, 0);
  }
  token(" ", -1);
  token("a", -2);
  token(" a", -3);
  return f;
}

void write_file(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

TEST(Convert, Llama2c) {
  for (const bool tied : {true, false}) {
    const test::ScratchFolder scratch;
    const Llama2c f = llama2c(tied);
    write_file(scratch.file("m.bin"), f.model());
    write_file(scratch.file("t.bin"), f.tokenizer);
    const json done = run_json({"convert", scratch.file("m.bin"), scratch.file("m.gguf"), "--tokenizer", scratch.file("t.bin")});
    EXPECT_EQ(done.at("family"), "llama");
    const format::Checkpoint to = open_checkpoint(scratch.file("m.gguf"));
    const auto spec = model::read_spec(to);
    ASSERT_TRUE(spec.ok()) << spec.error().to_string();
    EXPECT_EQ(spec->tied_head, tied);
    EXPECT_EQ(spec->max_positions, 32);
    ASSERT_TRUE(model::read_weights(to, spec.value()).ok());
    const auto first = [&](const char* name) {
      float value = 0;
      std::memcpy(&value, to.find(name)->data.data(), 4);
      return static_cast<std::size_t>(value * 4);
    };
    // Element numbers by the layout's own order.
    const std::size_t table = 262 * 32;
    const std::size_t wq = table + 2 * 32;
    const std::size_t wk = wq + 2 * 1024;
    EXPECT_EQ(first("token_embd.weight"), 0U);
    EXPECT_EQ(first("blk.1.attn_norm.weight"), table + 32);
    EXPECT_EQ(first("blk.1.attn_q.weight"), wq + 1024);
    EXPECT_EQ(first("blk.1.attn_k.weight"), wk + 512);
    const std::size_t w1 = wk + 4 * 512 + 2 * 1024 + 2 * 32;
    EXPECT_EQ(first("blk.0.ffn_gate.weight"), w1);
    EXPECT_EQ(first("blk.0.ffn_down.weight"), w1 + 2 * 24 * 32);
    EXPECT_EQ(first("blk.0.ffn_up.weight"), w1 + 4 * 24 * 32);
    if (!tied) {
      EXPECT_EQ(first("output.weight"), f.weights.size() - table);
    }

    const auto tokenizer = model::open_tokenizer(to);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().to_string();
    const auto direct = text::tokenizer_from_llama2c(f.tokenizer, "t.bin");
    ASSERT_TRUE(direct.ok());
    for (const char* text : {"a a", "aa  a!", "\xE2\x96\x81", "x\xff\n"}) {
      const auto a = direct->encode(text, {.add_bos = true});
      const auto b = tokenizer->encode(text, {.add_bos = true});
      ASSERT_TRUE(a.ok() && b.ok());
      EXPECT_EQ(a.value(), b.value()) << text;
    }
  }
}

TEST(Convert, RefusesBrokenLlama2c) {
  const test::ScratchFolder scratch;
  const Llama2c good = llama2c(true);
  const auto refused = [&](const std::string& model, const std::string& tokenizer) {
    write_file(scratch.file("m.bin"), model);
    write_file(scratch.file("t.bin"), tokenizer);
    const json error = run_json({"convert", scratch.file("m.bin"), scratch.file("m.gguf"), "--tokenizer", scratch.file("t.bin")}, 1).at("error");
    EXPECT_FALSE(std::filesystem::exists(scratch.file("m.gguf")));
    return error.at("code").get<std::string>() + " " + error.at("field").get<std::string>();
  };
  EXPECT_EQ(refused("short", good.tokenizer), "truncated bytes");
  EXPECT_EQ(refused(good.model().substr(0, 5000), good.tokenizer), "truncated token_embedding_table");
  EXPECT_EQ(refused(good.model() + "x", good.tokenizer), "malformed bytes");
  EXPECT_EQ(refused(good.model(), good.tokenizer.substr(0, good.tokenizer.size() - 1)), "truncated tokens[261]");
  const std::string names[] = {"dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "seq_len"};
  for (std::size_t i = 0; i < 7; ++i) {
    for (const std::int32_t value : {0, INT32_MIN, INT32_MAX}) {
      Llama2c bad = good;
      bad.header[i] = value;
      EXPECT_EQ(refused(bad.model(), good.tokenizer), "malformed " + names[i]) << value;
    }
  }
  Llama2c bad = good;
  bad.header[4] = 3;
  EXPECT_EQ(refused(bad.model(), good.tokenizer), "malformed n_heads");
  bad = good;
  bad.header[5] = 100;
  EXPECT_NE(refused(bad.model(), good.tokenizer), "");
}

TEST(Inspect, StoryLayerByLayer) {
  const json shown = run_json({"inspect", kStory, "--ctx", "4096"});
  EXPECT_EQ(shown.at("container"), "safetensors");
  const json& m = shown.at("model");
  EXPECT_EQ(m.at("family"), "gpt_oss");
  ASSERT_EQ(m.at("layers").size(), 6U);
  for (std::size_t i = 0; i < 6; ++i) {
    const json expected = {{"layer", i}, {"class", i % 2 == 0 ? "attention_sliding" : "attention_full"}, {"window", i % 2 == 0 ? 128 : 0},
                           {"head_dim", 64}, {"q_heads", 8}, {"kv_heads", 2}, {"experts", 8}, {"top_k", 2}};
    EXPECT_EQ(m["layers"][i], expected);
  }
  // Every parameter is an element of the file, two to a byte in the experts' codes.
  std::uint64_t elements = 0;
  for (const json& t : shown.at("tensors")) {
    const std::string name = t.at("name");
    if (name.ends_with("_scales")) continue;
    std::uint64_t count = name.ends_with("_blocks") ? 2 : 1;
    for (const json& n : t.at("shape")) count *= n.get<std::uint64_t>();
    elements += count;
  }
  EXPECT_EQ(m.at("parameters"), elements);
  // Three full layers of 2 heads x 64 x (K and V) x 4 bytes.
  const json& kv = shown.at("memory").at("kv");
  ASSERT_EQ(kv.size(), 2U);
  EXPECT_EQ(kv[0].at("window"), 128);
  EXPECT_EQ(kv[1].at("window"), 0);
  EXPECT_EQ(kv[1].at("bytes_per_1k"), 3 * 2 * 64 * 2 * 4 * 1000);
  EXPECT_EQ(kv[1].at("bytes_at_ctx"), std::uint64_t{3} * 2 * 64 * 2 * 4 * 4096);
  const json& per_token = shown.at("per_token");
  EXPECT_EQ(per_token.at("depth"), 4095);
  EXPECT_EQ(per_token.at("kv_bytes_at_depth"), std::uint64_t{3} * 2 * 64 * 2 * 4 * (4096 + 128));
  EXPECT_EQ(per_token.at("bytes_at_0"), per_token.at("weights_bytes").get<std::uint64_t>() + 6 * 2 * 64 * 2 * 4);
  // Experts: 2 of 8 are read.
  const auto bytes = [](const json& rows, const char* name) {
    for (const json& row : rows) {
      if (row.at("class") == name) return row.at("bytes").get<std::uint64_t>();
    }
    return std::uint64_t{0};
  };
  EXPECT_EQ(bytes(per_token.at("weights"), "experts") * 4, bytes(shown.at("memory").at("weights"), "experts"));
  EXPECT_EQ(bytes(per_token.at("weights"), "embedding"), 512U);
}

TEST(Inspect, BothContainersCostTheSame) {
  const test::ScratchFolder scratch;
  run_json({"convert", kStory, scratch.file("story.gguf")});
  const json a = run_json({"inspect", kStory});
  const json b = run_json({"inspect", scratch.file("story.gguf")});
  EXPECT_EQ(b.at("container"), "gguf");
  EXPECT_EQ(a.at("model").at("layers"), b.at("model").at("layers"));
  EXPECT_EQ(a.at("model").at("parameters"), b.at("model").at("parameters"));
  EXPECT_EQ(a.at("memory").at("kv"), b.at("memory").at("kv"));
}

TEST(Inspect, TextShowsTheLayersAndTheBytes) {
  const Finished shown = run_plumb({"inspect", kStory, "--tensors"});
  EXPECT_EQ(shown.status, 0) << shown.err;
  for (const char* text : {"safetensors", "layer class", "attention_sliding", "attention_full", "read per token", "lm_head.weight", "sliding_window"}) {
    EXPECT_NE(shown.out.find(text), std::string::npos) << text;
  }
}

TEST(Inspect, ErrorsKeepTheirPlace) {
  EXPECT_EQ(run_json({"inspect", "/no/such/model"}, 1).at("error").at("code"), "not_found");
  EXPECT_EQ(run_json({"inspect", kStory, "--ctx", "131073"}, 2).at("error").at("field"), "--ctx");
  EXPECT_EQ(run_json({"inspect", kStory, "--ctx", "100", "--depth", "100"}, 2).at("error").at("field"), "--depth");
  EXPECT_EQ(run_json({"inspect", kStory, "--kv-type", "f8"}, 2).at("error").at("field"), "--kv-type");
  // A file that opens but is no model that Plumb knows is still described.
  const Changed m;
  m.edit("config.json", [](json& c) { c["model_type"] = "mamba"; });
  const json shown = run_json({"inspect", m.path()}, 1);
  EXPECT_TRUE(shown.at("model").is_null());
  EXPECT_EQ(shown.at("model_error").at("code"), "unsupported");
  EXPECT_GT(shown.at("tensors").size(), 10U);
}

}  // namespace
}  // namespace plumb
