// plumb verify on the bundled model, at the size that sanitizers can afford: prompts to 260 tokens, short held-out windows.
// tests/full/parity_full_test.cpp has the whole oracle.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "subprocess.h"

namespace plumb::test {
namespace {

const std::string kModel = PLUMB_SOURCE_DIR "/models/story";
const std::string kOracle = PLUMB_SOURCE_DIR "/tests/oracle/story-oracle.safetensors";

nlohmann::json verify(std::vector<std::string> arguments, int status) {
  arguments.insert(arguments.begin(), {"verify", kModel, "--json", "-q"});
  const Finished finished = run_plumb(arguments);
  EXPECT_EQ(finished.status, status) << finished.out << finished.err;
  return nlohmann::json::parse(finished.out, nullptr, false);
}

TEST(Parity, TheShorterPromptsPass) {
  const auto report = verify({"--oracle", kOracle, "--max-length", "260"}, 0);
  EXPECT_EQ(report.value("verdict", ""), "PASS");
  EXPECT_EQ(report.value("prompts", 0), 12);
  EXPECT_GT(report.value("positions", 0), 100);
  EXPECT_GE(report.value("cosine_min", 0.0), 0.999999);
  EXPECT_LE(report.value("max_abs", 1.0), 5e-4);
  EXPECT_GT(report.value("max_abs", 0.0), 0.0) << "two implementations that never differ are one";
  EXPECT_EQ(report.value("top1_mismatches", -1), 0);
  EXPECT_EQ(report.value("greedy_mismatches", -1), 0);
  EXPECT_EQ(report["greedy"].size(), 12U);
  EXPECT_EQ(report["routing"].size(), 6U);
}

// Checked mode, one prompt, chunks that do not divide the window.
TEST(Parity, HoldsInCheckedModeAndOddChunks) {
  const auto report = verify({"--oracle", kOracle, "--prompts", "8", "--checked", "--chunk", "7"}, 0);
  EXPECT_EQ(report.value("verdict", ""), "PASS");
}

// No other implementation's figure exists for windows this short: this is what the optimised build said when it passed
// tests/full/parity_full_test.cpp, whose figure for windows of 2,048 does come from another implementation.
TEST(Parity, HeldOutTextInShortWindows) {
  const auto report = verify({"--heldout", kModel + "/heldout.u16", "--heldout-tokens", "8192", "--window", "256"}, 0);
  ASSERT_TRUE(report.contains("heldout"));
  EXPECT_EQ(report["heldout"]["windows"], 32);
  EXPECT_NEAR(report["heldout"]["nats_per_token"].get<double>(), 3.57434, 1e-3);
}

}  // namespace
}  // namespace plumb::test
