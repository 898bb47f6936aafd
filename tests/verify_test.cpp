// What plumb verify says when something is wrong, and that a recording is an oracle.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "format/checkpoint.h"
#include "subprocess.h"

namespace plumb::test {
namespace {

using nlohmann::json;

const std::string kModel = PLUMB_SOURCE_DIR "/models/story";
const std::string kOracle = PLUMB_SOURCE_DIR "/tests/oracle/story-oracle.safetensors";

// A copy of an oracle in which `spoil` has changed one tensor's bytes.
void copy_spoiled(const std::string& from, const std::string& to, const std::string& tensor, const std::function<void(char*)>& spoil) {
  std::string bytes = read_file(from);
  const auto file = format::Checkpoint::open(from);
  ASSERT_TRUE(file.ok());
  const format::TensorView* view = file->find(tensor);
  ASSERT_NE(view, nullptr) << tensor;
  spoil(bytes.data() + view->offset);
  std::ofstream(to, std::ios::binary) << bytes;
}

template <class T>
void change(char* bytes, std::size_t index, T value) {
  std::memcpy(bytes + index * sizeof(T), &value, sizeof(T));
}

json verify(std::vector<std::string> arguments, int status) {
  arguments.insert(arguments.begin(), {"verify", kModel, "--json", "-q"});
  const Finished finished = run_plumb(arguments);
  EXPECT_EQ(finished.status, status) << finished.out << finished.err;
  return json::parse(finished.out, nullptr, false);
}

TEST(Verify, AWrongLogitFailsAndIsPlaced) {
  const ScratchFolder scratch;
  const std::string wrong = scratch.file("wrong.safetensors");
  copy_spoiled(kOracle, wrong, "p1.logits", [](char* bytes) {  // two positions; token 1234 of the second
    float value = 0;
    std::memcpy(&value, bytes + (4096 + 1234) * sizeof(float), sizeof value);
    change(bytes, 4096 + 1234, value + 0.01F);
  });
  const json report = verify({"--oracle", wrong, "--prompts", "0-2"}, 3);
  EXPECT_EQ(report["verdict"], "FAIL");
  EXPECT_NEAR(report["max_abs"].get<double>(), 0.01, 1e-4);
  EXPECT_EQ(report["worst"]["max_abs"], json({{"prompt", 1}, {"position", 1}, {"token", 1234}}));
  EXPECT_EQ(report["top1_mismatches"], 0);
}

TEST(Verify, AWrongGreedyTokenFailsUnlessTheOracleWasUndecided) {
  const ScratchFolder scratch;
  const std::string wrong = scratch.file("wrong.safetensors");
  copy_spoiled(kOracle, wrong, "p0.greedy", [](char* bytes) { change<std::int32_t>(bytes, 11, 7); });
  const json report = verify({"--oracle", wrong, "--prompts", "0"}, 3);
  EXPECT_EQ(report["greedy_mismatches"], 1);
  EXPECT_EQ(report["greedy"][0]["diverged_at"], 11);
  EXPECT_GT(report["greedy"][0]["oracle_margin"].get<double>(), 1e-3);

  const std::string tie = scratch.file("tie.safetensors");
  copy_spoiled(wrong, tie, "p0.margin", [](char* bytes) { change(bytes, 11, 5e-4F); });
  const json forgiven = verify({"--oracle", tie, "--prompts", "0"}, 0);
  EXPECT_EQ(forgiven["verdict"], "PASS");
  EXPECT_EQ(forgiven["greedy_mismatches"], 0);
  EXPECT_EQ(forgiven["greedy"][0]["diverged_at"], 11);
}

TEST(Verify, ARecordingIsAnOracleWithRoutes) {
  const ScratchFolder scratch;
  const std::string recorded = scratch.file("own.safetensors");
  verify({"--oracle", kOracle, "--prompts", "0-2", "--record", recorded}, 0);
  const json same = verify({"--oracle", recorded}, 0);
  EXPECT_EQ(same["prompts"], 3);
  EXPECT_EQ(same["max_abs"], 0);
  EXPECT_EQ(same["oracle_has_routes"], true);
  for (const auto& layer : same["routing"]) EXPECT_EQ(layer["flips"], 0);
  EXPECT_TRUE(same["oracle"]["metadata"].contains("checked_max_logit_gap"));

  // Another expert at position 3 of prompt 2, layer 4: [7][6][2] values.
  const std::string flipped = scratch.file("flipped.safetensors");
  copy_spoiled(recorded, flipped, "p2.routes", [](char* bytes) {
    std::int32_t pair[2];
    std::memcpy(pair, bytes + (3 * 6 + 4) * sizeof pair, sizeof pair);
    std::int32_t other = 0;
    while (other == pair[0] || other == pair[1]) ++other;
    change(bytes, (3 * 6 + 4) * 2, other);
  });
  const json moved = verify({"--oracle", flipped}, 0);  // reported; the logits decide
  for (const auto& layer : moved["routing"]) EXPECT_EQ(layer["flips"], layer["layer"] == 4 ? 1 : 0);
}

TEST(Verify, RecordsWithoutAnOracle) {
  const ScratchFolder scratch;
  const std::string recorded = scratch.file("own.safetensors");
  verify({"--record", recorded, "--max-length", "7", "--greedy-tokens", "5"}, 0);
  const json same = verify({"--oracle", recorded, "--threads", "1"}, 0);
  EXPECT_EQ(same["prompts"], 3);
  EXPECT_EQ(same["max_abs"], 0);
  EXPECT_EQ(same["greedy"][0]["steps"], 5);
}

TEST(Verify, HeldOutTextIsReported) {
  const json report = verify({"--heldout", kModel + "/heldout.u16", "--heldout-tokens", "512", "--window", "128"}, 0);
  EXPECT_EQ(report["heldout"]["tokens"], 512);
  EXPECT_EQ(report["heldout"]["windows"], 4);
  EXPECT_TRUE(report["heldout"]["reference"].is_null());
  // A trained model on its own kind of text: far below the ln(4096) = 8.3 of knowing nothing, and not below its best.
  EXPECT_GT(report["heldout"]["nats_per_token"].get<double>(), 2.5);
  EXPECT_LT(report["heldout"]["nats_per_token"].get<double>(), 5.0);
}

TEST(Verify, ARepresentationAgainstTheExactPathOfItsFile) {
  const std::vector<std::string> text = {"--path", "deploy", "--against-exact", "--heldout", kModel + "/heldout.u16", "--heldout-tokens", "512", "--window", "128"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), text.begin(), text.end());
    return verify(more, 0);
  };
  const json q8 = with({"--act", "q8"});
  EXPECT_EQ(q8["positions"], 512);
  EXPECT_GT(q8["mean"].get<double>(), 0);
  EXPECT_LE(q8["mean"], q8["budget"]["kl_mean"]);
  const json both = with({"--act", "q8", "--kv", "q8"});
  EXPECT_EQ(both["budget"]["kl_mean"].get<double>(), 2 * q8["budget"]["kl_mean"].get<double>());
  EXPECT_NE(both["mean"], q8["mean"]);
  EXPECT_EQ(both["model"]["digest"], q8["model"]["digest"]);
  const json nothing = with({"--act", "f32"});
  EXPECT_EQ(nothing["mean"], 0);
  EXPECT_EQ(nothing["top1_flips"], 0);
  EXPECT_EQ(nothing["nats"], nothing["source_nats"]);
}

TEST(Verify, TheTextNamesItsEvidence) {
  const Finished finished = run_plumb({"verify", kModel, "--oracle", kOracle, "--prompts", "0-1", "-q"});
  EXPECT_EQ(finished.status, 0) << finished.err;
  for (const char* word : {"digest", "transformers", "trainer_float32_max_logit_gap", "cosine", "at least", "PASS", "Not shown", "the oracle has no routes"}) {
    EXPECT_NE(finished.out.find(word), std::string::npos) << word << "\n" << finished.out;
  }
}

TEST(Verify, BadInputsAreNamed) {
  EXPECT_EQ(run_plumb({"verify", kModel}).status, 2);
  EXPECT_EQ(run_plumb({"verify", kModel, "--oracle", kOracle, "--prompts", "5-2"}).status, 2);
  EXPECT_EQ(run_plumb({"verify", kModel, "--against-exact", "--path", "deploy", "--oracle", kOracle}).status, 2);
  EXPECT_EQ(run_plumb({"verify", kModel, "--against-exact", "--heldout", kModel + "/heldout.u16"}).status, 2);
  EXPECT_EQ(run_plumb({"verify", kModel, "--against-exact", "--path", "deploy", "--heldout", kModel + "/heldout.u16", "--prompts", "1"}).status, 2);
  const Finished few = run_plumb({"verify", kModel, "--against-exact", "--path", "deploy", "--heldout", kModel + "/heldout.u16", "--heldout-tokens", "100"});
  EXPECT_EQ(few.status, 1);
  EXPECT_NE(few.err.find("--heldout-tokens"), std::string::npos) << few.err;
  EXPECT_EQ(run_plumb({"verify", kModel, "--oracle", kOracle, "--prompts", "99"}).status, 2);
  EXPECT_EQ(run_plumb({"verify", kModel, "--oracle", kOracle, "--path", "quick"}).status, 2);
  const json none = verify({"--oracle", kModel + "/model.safetensors"}, 1);
  EXPECT_EQ(none["error"]["code"], "missing_tensor");
  const ScratchFolder scratch;
  const std::string wrong = scratch.file("wrong.safetensors");
  copy_spoiled(kOracle, wrong, "p0.ids", [](char* bytes) { change<std::int32_t>(bytes, 0, 4096); });
  const json outside = verify({"--oracle", wrong, "--prompts", "0"}, 1);
  EXPECT_EQ(outside["error"]["code"], "malformed");
  EXPECT_EQ(outside["error"]["field"], "p0.ids");
  EXPECT_EQ(outside["error"]["value"], "4096");
}

}  // namespace
}  // namespace plumb::test
