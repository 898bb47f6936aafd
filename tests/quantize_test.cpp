// plumb convert --quantize through the program: errors as stated, figures of quality in their order, the same file every time.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "checkpoints.h"
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
  json first;
  for (const char* threads : {"1", "3"}) {
    json done = run_json({"convert", kStory, scratch.file(threads), "--quantize", "q4_k", "--kl", "off", "--name", "m", "--threads", threads});
    for (const char* key : {"output", "seconds"}) done.erase(key);
    if (first.is_null()) first = done;
    EXPECT_EQ(done, first);  // the stated errors to the last digit
  }
  EXPECT_EQ(test::read_file(scratch.file("1")), test::read_file(scratch.file("3")));
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
  const json error = run_json({"convert", scratch.file("m"), scratch.file("o.gguf"), "--quantize", "q4_0"}, 1).at("error");
  EXPECT_EQ(error.at("code"), "malformed");
  EXPECT_EQ(error.at("field"), "lm_head.weight");
  EXPECT_FALSE(std::filesystem::exists(scratch.file("o.gguf")));
}

}  // namespace
}  // namespace plumb
