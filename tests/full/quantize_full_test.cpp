// plumb convert --quantize on the trained model: every format's stated errors, and what each costs in divergence.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "checkpoints.h"
#include "format/quantize/quantize.h"
#include "model/arch/table.h"
#include "subprocess.h"

namespace plumb {
namespace {

using nlohmann::json;
using test::open_checkpoint;
using test::run_json;

const std::string kStory = PLUMB_SOURCE_DIR "/models/story";

// A matrix as numbers, the factor that stands beside it in nvfp4 applied.
std::vector<float> values_of(const format::Checkpoint& c, const std::string& name) {
  const format::TensorView& tensor = *c.find(name);
  std::vector<float> out(tensor.elements());
  format::quantize::decode_blocks(tensor.dtype, reinterpret_cast<const std::uint8_t*>(tensor.data.data()), out.size(), out.data());
  if (tensor.dtype != DType::nvfp4) return out;
  float factor = 0;
  std::memcpy(&factor, c.find(name.substr(0, name.size() - 6) + "scale")->data.data(), sizeof factor);
  for (float& v : out) v *= factor;
  return out;
}

TEST(QuantizeFull, EveryFormatOfTheStoryModelLoadsAndStatesItsErrors) {
  // Relative RMS error of trained weights, at most: between the step of the format and what outliers add.
  const std::map<std::string, double> bound = {{"q8_0", 0.01},  {"q6_k", 0.025},   {"q5_k", 0.05}, {"q4_k", 0.10}, {"q4_1", 0.10},
                                               {"q4_0", 0.115}, {"iq4_nl", 0.105}, {"nvfp4", 0.095}, {"mxfp4", 0.16}};
  const test::ScratchFolder scratch;
  const format::Checkpoint source = open_checkpoint(kStory);
  for (const auto& [format, most] : bound) {
    const std::string file = scratch.file(format + ".gguf");
    const json done = run_json({"convert", kStory, "-o", file, "--quantize", format, "--kl", "off"});
    const format::Checkpoint made = open_checkpoint(file);
    int quantised = 0;
    for (const json& row : done.at("tensors")) {
      const std::string name = row.at("name");
      const format::TensorView& tensor = *made.find(name);
      EXPECT_EQ(row.at("dtype"), std::string(to_string(tensor.dtype)));
      if (!row.contains("error")) {
        EXPECT_NE(row.at("action"), "quantized");
        continue;
      }
      ++quantised;
      EXPECT_EQ(row.at("dtype"), format) << name;
      EXPECT_GT(row.at("error").at("relative_rms"), 0) << name;
      EXPECT_LT(row.at("error").at("relative_rms"), most) << format << " " << name;
      // What was stated is what the file holds.
      format::quantize::ErrorSum sum;
      sum.add(values_of(source, row.at("from")), values_of(made, name));
      EXPECT_NEAR(row.at("error").at("relative_rms"), sum.relative_rms(), 1e-9) << name;
      EXPECT_EQ(row.at("error").at("max_abs"), sum.max_abs) << name;
    }
    EXPECT_EQ(quantised, 6 * 4 + 2) << format;  // attention of every layer, embedding and head
    EXPECT_EQ(made.find("blk.0.ffn_gate_inp.weight")->dtype, DType::f32);
    EXPECT_EQ(made.find("blk.0.attn_norm.weight")->dtype, DType::f32);
    EXPECT_EQ(made.find("blk.0.ffn_gate_exps.weight")->dtype, DType::mxfp4);  // as narrow already
    const auto spec = model::read_spec(made);
    ASSERT_TRUE(spec.ok());
    EXPECT_TRUE(model::read_weights(made, spec.value()).ok()) << format;
  }
}

TEST(QuantizeFull, DivergenceRisesAsBitsFall) {
  const test::ScratchFolder scratch;
  double last = 0;
  for (const char* format : {"q8_0", "q6_k", "q5_k", "q4_k"}) {
    const json done = run_json({"convert", kStory, scratch.file("m.gguf"), "--quantize", format, "--kl", kStory + "/heldout.u16", "--kl-tokens", "512"});
    const json& kl = done.at("kl");
    EXPECT_EQ(kl.at("positions"), 512);
    const double mean = kl.at("mean");
    EXPECT_GT(mean, last) << format;
    EXPECT_LT(mean, 0.1) << format;
    EXPECT_LT(std::abs(kl.at("nats").get<double>() - kl.at("source_nats").get<double>()), 0.1) << format;
    last = mean;
  }
}

}  // namespace
}  // namespace plumb
