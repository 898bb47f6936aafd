// plumb convert --quantize through the program: errors as stated, figures of quality in their order, the same file every time.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <stdexcept>

#include "checkpoints.h"
#include "format/gguf_writer.h"
#include "format/quantize/quantize.h"
#include "model/arch/table.h"
#include "subprocess.h"

namespace plumb {
namespace {

using nlohmann::json;
using test::Finished;
using test::open_checkpoint;
using test::run_json;
using test::run_plumb;

const std::string kStory = PLUMB_SOURCE_DIR "/models/story";

json row_of(const json& done, const std::string& name) {
  for (const json& row : done.at("tensors")) {
    if (row.at("name") == name) return row;
  }
  throw std::runtime_error("no tensor " + name);
}

// A matrix as numbers, the factors that stand beside it applied.
std::vector<float> values_of(const format::Checkpoint& c, const std::string& name) {
  const format::TensorView& tensor = *c.find(name);
  std::vector<float> out(tensor.elements());
  format::quantize::decode_blocks(tensor.dtype, reinterpret_cast<const std::uint8_t*>(tensor.data.data()), out.size(), out.data());
  if (const format::TensorView* scale = c.find(name.substr(0, name.size() - 6) + "scale")) {
    std::vector<float> factors(scale->elements());
    std::memcpy(factors.data(), scale->data.data(), scale->data.size());
    for (std::size_t i = 0; i < out.size(); ++i) out[i] *= factors[i / (out.size() / factors.size())];
  }
  return out;
}

float largest_of(std::span<const float> values) {
  float largest = 0;
  for (const float v : values) largest = std::max(largest, std::fabs(v));
  return largest;
}

// What was stated of a tensor is what the file holds.
void expect_error_as_stated(const json& row, const format::Checkpoint& source, const format::Checkpoint& made) {
  const std::string name = row.at("name");
  format::quantize::ErrorSum sum;
  sum.add(values_of(source, row.at("from")), values_of(made, name));
  EXPECT_NEAR(row.at("error").at("relative_rms"), sum.relative_rms(), 1e-9) << name;
  EXPECT_EQ(row.at("error").at("max_abs"), sum.max_abs) << name;
}

// A copy of a GGUF file without one tensor, and with factors beside others.
void copy_with(const std::string& from, const std::string& to, const std::string& without, const std::map<std::string, std::vector<float>>& factors) {
  const format::Checkpoint source = open_checkpoint(from);
  format::GgufKeys keys;
  for (const format::MetaEntry& entry : source.metadata().entries()) keys.add_entry(entry);
  std::vector<format::TensorDecl> tensors;
  std::vector<std::span<const std::byte>> data;
  for (const format::TensorView& tensor : source.tensors()) {
    if (tensor.name == without) continue;
    tensors.push_back({tensor.name, tensor.dtype, tensor.shape});
    data.push_back(tensor.data);
  }
  for (const auto& [name, values] : factors) {
    tensors.push_back({name, DType::f32, {values.size()}});
    data.push_back(std::as_bytes(std::span(values)));
  }
  auto writer = format::create_gguf(to, keys, tensors);
  ASSERT_TRUE(writer.ok());
  for (std::size_t i = 0; i < tensors.size(); ++i) ASSERT_TRUE(writer->append_tensor(tensors[i].name, data[i]).ok());
  ASSERT_TRUE(writer->finish().ok());
}

TEST(QuantizeModel, ComparesOnTextOfTheSourcesOwnWhenTheModelIsSmall) {
  const test::ScratchFolder scratch;
  run_json({"synth", "-o", scratch.file("s.gguf"), "--attn", "bf16"});
  const json done = run_json({"convert", scratch.file("s.gguf"), scratch.file("q.gguf"), "--quantize", "q8_0"});
  EXPECT_EQ(done.at("kl").at("positions"), 1024);
  EXPECT_GT(done.at("kl").at("mean"), 0);
  EXPECT_EQ(run_json({"convert", scratch.file("s.gguf"), scratch.file("q.gguf"), "--quantize", "q8_0", "--kl", "off"}).at("kl"), nullptr);
}

TEST(QuantizeModel, GivesTheSameFileOnAnyNumberOfThreads) {
  const test::ScratchFolder scratch;
  for (const char* format : {"q4_k", "nvfp4"}) {
    json first;
    for (const char* threads : {"1", "3"}) {
      json done = run_json({"convert", kStory, scratch.file(threads), "--quantize", format, "--tensor", "*_exps.weight=" + std::string(format), "--kl",
                            "off", "--name", "m", "--threads", threads});
      for (const char* key : {"output", "seconds"}) done.erase(key);
      if (first.is_null()) first = done;
      EXPECT_EQ(done, first);  // the stated errors to the last digit
    }
    EXPECT_EQ(test::read_file(scratch.file("1")), test::read_file(scratch.file("3"))) << format;
  }
}

TEST(QuantizeModel, APatternDecidesOverTheFormat) {
  const test::ScratchFolder scratch;
  const json done = run_json({"convert", kStory, scratch.file("m.gguf"), "--kl", "off", "--quantize", "q4_k", "--tensor", "output.weight=q6_k", "--tensor",
                              "blk.*.attn_[qk].weight=q8_0", "--tensor", "blk.1.attn_q.weight=f16", "--tensor", "*gate_inp.weight=bf16"});
  EXPECT_EQ(row_of(done, "output.weight").at("dtype"), "q6_k");
  EXPECT_EQ(row_of(done, "blk.0.attn_q.weight").at("dtype"), "q8_0");
  EXPECT_EQ(row_of(done, "blk.1.attn_q.weight").at("dtype"), "f16");
  EXPECT_EQ(row_of(done, "blk.0.attn_v.weight").at("dtype"), "q4_k");
  EXPECT_EQ(row_of(done, "blk.0.ffn_gate_inp.weight").at("dtype"), "bf16");
  const format::Checkpoint made = open_checkpoint(scratch.file("m.gguf"));
  EXPECT_TRUE(model::read_weights(made, model::read_spec(made).value()).ok());

  for (const auto& [bad, status] : {std::pair{"output.weight", 2}, {"output.weight=q3_k", 2}, {"=q4_0", 2}, {"no_such.*=q4_0", 1}, {"*.bias=q4_0", 1}}) {
    const json error = run_json({"convert", kStory, scratch.file("n.gguf"), "--tensor", bad}, status).at("error");
    EXPECT_EQ(error.at("code"), "invalid_argument") << bad;
    EXPECT_EQ(error.at("field"), "--tensor") << bad;
    EXPECT_FALSE(std::filesystem::exists(scratch.file("n.gguf")));
  }
}

TEST(QuantizeModel, RequantisesAGgufAndKeepsItsKeys) {
  const test::ScratchFolder scratch;
  // Rows of 96 are no whole blocks of 256.
  run_json({"synth", "-o", scratch.file("s.gguf"), "--attn", "q8_0", "--hidden", "96", "--heads", "6", "--kv-heads", "3", "--head-dim", "16", "--ffn", "160"});
  const json done = run_json({"convert", scratch.file("s.gguf"), scratch.file("q.gguf"), "--quantize", "q4_k", "--kl", "off"});
  EXPECT_EQ(row_of(done, "blk.0.attn_q.weight").at("dtype"), "iq4_nl");
  EXPECT_EQ(row_of(done, "blk.0.attn_q.weight").at("action"), "requantized");
  EXPECT_EQ(row_of(done, "blk.0.ffn_up_exps.weight").at("dtype"), "mxfp4");
  EXPECT_EQ(done.at("warnings").size(), 3U) << done.at("warnings");
  const format::Checkpoint before = open_checkpoint(scratch.file("s.gguf")), after = open_checkpoint(scratch.file("q.gguf"));
  ASSERT_EQ(before.tensors().size(), after.tensors().size());
  for (const format::MetaEntry& entry : before.metadata().entries()) {
    const format::MetaEntry* same = after.metadata().find(entry.key);
    ASSERT_NE(same, nullptr) << entry.key;
    EXPECT_EQ(same->type, entry.type) << entry.key;
    if (entry.key == "general.file_type") continue;
    EXPECT_EQ(format::describe(same->value), format::describe(entry.value)) << entry.key;
    if (const auto* array = std::get_if<format::MetaArray>(&entry.value)) {
      const auto raw = std::get<format::MetaArray>(same->value).raw();
      EXPECT_TRUE(std::equal(raw.begin(), raw.end(), array->raw().begin(), array->raw().end())) << entry.key;
    }
  }
  EXPECT_EQ(test::read_file(scratch.file("s.gguf")).size() > test::read_file(scratch.file("q.gguf")).size(), true);
}

TEST(QuantizeModel, ANumberThatCannotBeEncodedLeavesNoFile) {
  const test::ScratchFolder scratch;
  run_json({"synth", "--hf", scratch.file("m"), "--layers", "2"});
  std::uint64_t at = 0;
  {
    const format::Checkpoint c = open_checkpoint(scratch.file("m"));
    at = c.find("lm_head.weight")->offset + 2 * 777;
  }
  {
    std::fstream file(scratch.file("m") + "/model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file << std::string("\x80\x7f", 2);  // an infinity in bf16
  }
  for (const char* format : {"q4_0", "nvfp4"}) {
    const json error = run_json({"convert", scratch.file("m"), scratch.file("o.gguf"), "--quantize", format}, 1).at("error");
    EXPECT_EQ(error.at("code"), "malformed") << format;
    EXPECT_EQ(error.at("field"), "lm_head.weight") << format;
    EXPECT_FALSE(std::filesystem::exists(scratch.file("o.gguf")));
  }
}

// Every matrix of the file has its factor beside it, experts one each, and the engine that reads them finds the model it was.
TEST(QuantizeModel, Nvfp4MatricesHaveTheirFactorsBesideThem) {
  const test::ScratchFolder scratch;
  const json done = run_json({"convert", kStory, scratch.file("m.gguf"), "--quantize", "nvfp4", "--tensor", "*_exps.weight=nvfp4", "--kl",
                              kStory + "/heldout.u16", "--kl-tokens", "512"});
  const format::Checkpoint made = open_checkpoint(scratch.file("m.gguf")), source = open_checkpoint(kStory);
  EXPECT_TRUE(model::read_weights(made, model::read_spec(made).value()).ok());
  EXPECT_EQ(format::describe(made.metadata().find("general.file_type")->value), "39");
  int matrices = 0;
  std::set<float> of_experts;
  for (const json& row : done.at("tensors")) {
    const std::string name = row.at("name");
    if (row.at("dtype") != "nvfp4") continue;
    ++matrices;
    const bool experts = name.find("_exps") != std::string::npos;
    const format::TensorView* scale = made.find(name.substr(0, name.size() - 6) + "scale");
    ASSERT_NE(scale, nullptr) << name;
    EXPECT_EQ(row_of(done, scale->name).at("action"), "added");
    EXPECT_EQ(scale->dtype, DType::f32);
    EXPECT_EQ(scale->shape, std::vector<std::uint64_t>{experts ? 8U : 1U}) << name;
    EXPECT_LT(row.at("error").at("relative_rms"), 0.1) << name;
    std::vector<float> factors(scale->elements());
    std::memcpy(factors.data(), scale->data.data(), scale->data.size());
    if (experts) {
      of_experts.insert(factors.begin(), factors.end());
      continue;
    }
    expect_error_as_stated(row, source, made);
    EXPECT_EQ(factors[0], largest_of(values_of(source, row.at("from"))) / 2688) << name;
  }
  EXPECT_EQ(matrices, 6 * (4 + 3) + 2);
  EXPECT_GT(of_experts.size(), 1U);
  EXPECT_GT(done.at("kl").at("mean"), 0.01);
  EXPECT_LT(done.at("kl").at("mean"), 0.1);
}

TEST(QuantizeModel, Nvfp4IsQuantisedAgainWithItsFactorsInTheNumbers) {
  const test::ScratchFolder scratch;
  run_json({"convert", kStory, scratch.file("nv.gguf"), "--quantize", "nvfp4", "--tensor", "*_exps.weight=nvfp4", "--kl", "off"});
  const format::Checkpoint source = open_checkpoint(scratch.file("nv.gguf"));
  for (const char* format : {"f32", "q8_0", "iq4_nl"}) {
    const json done = run_json({"convert", scratch.file("nv.gguf"), scratch.file("w.gguf"), "--tensor", "*.attn_?.weight=" + std::string(format), "--tensor",
                                "*_exps.weight=" + std::string(format), "--kl", kStory + "/heldout.u16", "--kl-tokens", "512"});
    const format::Checkpoint made = open_checkpoint(scratch.file("w.gguf"));
    for (const char* name : {"blk.1.attn_q.weight", "blk.2.ffn_up_exps.weight"}) {
      EXPECT_EQ(row_of(done, name).at("dtype"), format);
      expect_error_as_stated(row_of(done, name), source, made);
    }
    EXPECT_EQ(made.find("blk.1.attn_q.scale"), nullptr);
    EXPECT_EQ(made.find("blk.2.ffn_up_exps.scale"), nullptr);
    EXPECT_NE(made.find("blk.1.attn_output.scale"), nullptr);  // stayed as it was
    const double most = format == std::string("f32") ? 1e-9 : format == std::string("q8_0") ? 3e-3 : 0.2;
    EXPECT_LT(done.at("kl").at("mean"), most) << format;
  }
}

// Factors that the source has already, of formats that do not need them, and of more matrices than one.
TEST(QuantizeModel, FactorsOfTheSourceAreReplaced) {
  const test::ScratchFolder scratch;
  run_json({"synth", "-o", scratch.file("s.gguf"), "--attn", "q8_0", "--experts", "3"});
  const std::vector<float> of_experts = {0.25F, 3, 70};
  copy_with(scratch.file("s.gguf"), scratch.file("f.gguf"), "", {{"blk.0.attn_q.scale", {0.03F}}, {"blk.1.ffn_down_exps.scale", of_experts}});
  const json done = run_json({"convert", scratch.file("f.gguf"), scratch.file("q.gguf"), "--quantize", "nvfp4", "--tensor", "*_exps.weight=nvfp4"});
  const format::Checkpoint source = open_checkpoint(scratch.file("f.gguf")), made = open_checkpoint(scratch.file("q.gguf"));
  for (const char* name : {"blk.0.attn_q.weight", "blk.1.ffn_down_exps.weight", "blk.1.attn_q.weight"}) {
    EXPECT_EQ(row_of(done, name).at("action"), "requantized");
    EXPECT_LT(row_of(done, name).at("error").at("relative_rms"), 0.15) << name;
    expect_error_as_stated(row_of(done, name), source, made);
  }
  const std::vector<float> values = values_of(source, "blk.1.ffn_down_exps.weight");
  const format::TensorView* scale = made.find("blk.1.ffn_down_exps.scale");
  ASSERT_NE(scale, nullptr);
  ASSERT_EQ(scale->elements(), 3U);
  for (std::size_t expert = 0; expert < 3; ++expert) {
    float factor = 0;
    std::memcpy(&factor, scale->data.data() + 4 * expert, 4);
    EXPECT_EQ(factor, largest_of(std::span(values).subspan(expert * values.size() / 3, values.size() / 3)) / 2688) << expert;
  }
  EXPECT_LT(done.at("kl").at("mean"), 0.1);
}

TEST(QuantizeModel, AnEmbeddingThatIsTheHeadTooIsWrittenInNvfp4) {
  const test::ScratchFolder scratch;
  run_json({"synth", "-o", scratch.file("s.gguf"), "--attn", "bf16", "--embed", "f32"});
  copy_with(scratch.file("s.gguf"), scratch.file("tied.gguf"), "output.weight", {});
  ASSERT_TRUE(model::read_spec(open_checkpoint(scratch.file("tied.gguf"))).value().tied_head);
  const json done = run_json({"convert", scratch.file("tied.gguf"), scratch.file("q.gguf"), "--quantize", "nvfp4"});
  const format::Checkpoint source = open_checkpoint(scratch.file("tied.gguf")), made = open_checkpoint(scratch.file("q.gguf"));
  EXPECT_EQ(made.find("token_embd.weight")->dtype, DType::nvfp4);
  EXPECT_NE(made.find("token_embd.scale"), nullptr);
  expect_error_as_stated(row_of(done, "token_embd.weight"), source, made);
  EXPECT_GT(done.at("kl").at("mean"), 0);
  EXPECT_LT(done.at("kl").at("mean"), 0.1);
}

TEST(QuantizeModel, RowsThatAreNoWholeBlocksOfNvfp4GetAFormatOf32) {
  const test::ScratchFolder scratch;
  run_json({"synth", "-o", scratch.file("s.gguf"), "--attn", "bf16", "--hidden", "96", "--heads", "8", "--kv-heads", "4", "--head-dim", "16", "--ffn", "160"});
  const json done = run_json({"convert", scratch.file("s.gguf"), scratch.file("q.gguf"), "--quantize", "nvfp4", "--kl", "off"});
  EXPECT_EQ(row_of(done, "blk.0.attn_q.weight").at("dtype"), "iq4_nl");       // rows of 96
  EXPECT_EQ(row_of(done, "blk.0.attn_output.weight").at("dtype"), "nvfp4");   // rows of 128
  const format::Checkpoint made = open_checkpoint(scratch.file("q.gguf"));
  EXPECT_EQ(made.find("blk.0.attn_q.scale"), nullptr);
  EXPECT_NE(made.find("blk.0.attn_output.scale"), nullptr);
  EXPECT_NE(done.at("warnings").dump().find("iq4_nl for rows that are no whole blocks of nvfp4"), std::string::npos) << done.at("warnings");
}

}  // namespace
}  // namespace plumb
