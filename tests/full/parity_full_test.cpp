// The whole oracle, the prompt past YaRN's original length, held-out text and the other container: the figures that the program is
// held to.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "subprocess.h"

namespace plumb::test {
namespace {

using nlohmann::json;

const std::string kModel = PLUMB_SOURCE_DIR "/models/story";
const std::string kOracles = PLUMB_SOURCE_DIR "/tests/oracle/";

json verify(const std::string& model, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"verify", model, "--json", "-q"});
  const Finished finished = run_plumb(arguments);
  EXPECT_EQ(finished.status, 0) << finished.out << finished.err;
  return json::parse(finished.out, nullptr, false);
}

// One line in the test log for people: what was found, not only that it was enough.
void tell(const json& report) {
  std::printf("[ figures  ] prompts %d positions %d cosine_min %.9f max_abs %.3g kl_max %.3g\n", report.value("prompts", 0),
              report.value("positions", 0), report.value("cosine_min", 0.0), report.value("max_abs", 0.0), report.value("kl_max", 0.0));
}

void expect_pass(const json& report, int prompts) {
  tell(report);
  EXPECT_EQ(report.value("verdict", ""), "PASS");
  EXPECT_EQ(report.value("prompts", 0), prompts);
  EXPECT_GE(report.value("cosine_min", 0.0), 0.999999);
  EXPECT_LE(report.value("max_abs", 1.0), 5e-4);
  EXPECT_EQ(report.value("top1_mismatches", -1), 0);
  EXPECT_EQ(report.value("greedy_mismatches", -1), 0);
}

TEST(ParityFull, EveryPromptPasses) {
  const json report = verify(kModel, {"--oracle", kOracles + "story-oracle.safetensors", "--path", "exact"});
  expect_pass(report, 18);
  for (const auto& text : report["greedy"]) {
    EXPECT_EQ(text["steps"], 96);
    EXPECT_TRUE(text["diverged_at"].is_null()) << text;  // the smallest margin there is 1.2e-3
  }
}

TEST(ParityFull, SixThousandTokensPass) {
  expect_pass(verify(kModel, {"--oracle", kOracles + "story-oracle-long.safetensors"}), 1);
}

// The oracle's own figure over the same tokens, from the other implementation: 3.40926.
TEST(ParityFull, HeldoutTextCostsWhatTheOracleSays) {
  const json report = verify(kModel, {"--oracle", kOracles + "story-oracle.safetensors", "--prompts", "0", "--heldout", kModel + "/heldout.u16",
                                      "--heldout-tokens", "131072", "--window", "2048"});
  EXPECT_EQ(report.value("verdict", ""), "PASS");
  const json text = report.value("heldout", json::object());
  EXPECT_EQ(text.value("tokens", 0), 131072);
  EXPECT_EQ(text.value("windows", 0), 64);
  ASSERT_TRUE(text.contains("reference") && text["reference"].is_number()) << text;
  EXPECT_NEAR(text.value("reference", 0.0), 3.40926, 1e-5);
  EXPECT_NEAR(text.value("nats_per_token", 0.0), text.value("reference", 0.0), 1e-3);
  std::printf("[ figures  ] held-out text: %.7f nats per token, the oracle %.7f\n", text.value("nats_per_token", 0.0), text.value("reference", 0.0));
}

// The other container: codes, scales and vectors are moved without rounding, so the figures are the same, bit for bit.
TEST(ParityFull, GgufIsTheSameModel) {
  const ScratchFolder scratch;
  const std::string gguf = scratch.file("story.gguf");
  const Finished converted = run_plumb({"convert", kModel, gguf, "-q"});
  ASSERT_EQ(converted.status, 0) << converted.err;
  const json own = verify(kModel, {"--oracle", kOracles + "story-oracle.safetensors"});
  const json other = verify(gguf, {"--oracle", kOracles + "story-oracle.safetensors"});
  expect_pass(other, 18);
  EXPECT_EQ(other["model"]["container"], "gguf");
  for (const char* key : {"cosine_min", "max_abs", "max_rel", "kl_mean", "kl_max", "worst", "greedy", "routing"}) EXPECT_EQ(other[key], own[key]) << key;
  expect_pass(verify(gguf, {"--oracle", kOracles + "story-oracle-long.safetensors"}), 1);
}

}  // namespace
}  // namespace plumb::test
