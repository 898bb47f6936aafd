// plumb run, as its user sees it.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "subprocess.h"

namespace plumb::test {
namespace {

using nlohmann::json;

const std::string kModel = PLUMB_SOURCE_DIR "/models/story";

json run_json(std::vector<std::string> arguments, int status = 0) {
  arguments.insert(arguments.begin(), {"run", kModel, "--json"});
  const Finished finished = run_plumb(arguments);
  EXPECT_EQ(finished.status, status) << finished.out << finished.err;
  return json::parse(finished.out, nullptr, false);
}

TEST(Run, WritesTextAndTheFiguresApart) {
  const Finished finished = run_plumb({"run", kModel, "-p", "The ship", "-n", "12", "--greedy"});
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_FALSE(finished.out.empty());
  EXPECT_EQ(finished.out.back(), '\n');
  EXPECT_EQ(finished.out.find("tokens/s"), std::string::npos);
  EXPECT_NE(finished.err.find("tokens/s"), std::string::npos) << finished.err;
  EXPECT_NE(finished.err.find("12 tokens"), std::string::npos) << finished.err;
}

TEST(Run, JsonHasEveryDocumentedKeyAndIsReproducible) {
  const json a = run_json({"-p", "The ship", "-n", "12", "--greedy"});
  for (const char* key : {"model", "prompt_ids", "ids", "text", "finish", "sampling", "fingerprint", "timing"}) EXPECT_TRUE(a.contains(key)) << key;
  EXPECT_EQ(a["ids"].size(), 12U);
  EXPECT_EQ(a["finish"], "length");
  EXPECT_EQ(a["fingerprint"]["tokens"].get<std::string>().size(), 32U);
  const json b = run_json({"-p", "The ship", "-n", "12", "--greedy", "--threads", "1"});
  EXPECT_EQ(a["text"], b["text"]);
  EXPECT_EQ(a["fingerprint"], b["fingerprint"]);
  std::string ids;
  for (const auto& id : a["prompt_ids"]) ids += (ids.empty() ? "" : ",") + std::to_string(id.get<int>());
  EXPECT_EQ(run_json({"--ids", ids, "-n", "12", "--greedy"})["fingerprint"], a["fingerprint"]);
  EXPECT_NE(run_json({"--ids", ids, "-n", "11", "--greedy"})["fingerprint"]["logits"], a["fingerprint"]["logits"]);
}

TEST(Run, TakesItsPromptFromAFileOrStandardInput) {
  const ScratchFolder scratch;
  std::ofstream(scratch.file("prompt.txt")) << "The ship";
  const json expected = run_json({"-p", "The ship", "-n", "3", "--greedy"});
  EXPECT_EQ(run_json({"-f", scratch.file("prompt.txt"), "-n", "3", "--greedy"})["ids"], expected["ids"]);
  const Finished piped = run_plumb({"run", kModel, "--json", "-f", "-", "-n", "3", "--greedy"}, "The ship");
  EXPECT_EQ(json::parse(piped.out)["ids"], expected["ids"]);
}

TEST(Run, SamplingFollowsTheModelUnlessAsked) {
  const json recommended = run_json({"-p", "The ship", "-n", "4"});
  EXPECT_EQ(recommended["sampling"]["temperature"], 1);  // do_sample in generation_config.json
  EXPECT_EQ(run_json({"-p", "The ship", "-n", "4"})["ids"], recommended["ids"]);
  EXPECT_EQ(run_json({"-p", "The ship", "-n", "4", "--greedy"})["sampling"]["temperature"], 0);
  const json asked = run_json({"-p", "The ship", "-n", "4", "--top-k", "5", "--seed", "3"});
  EXPECT_EQ(asked["sampling"]["top_k"], 5);
  EXPECT_EQ(asked["sampling"]["temperature"], 1);
  EXPECT_EQ(asked["sampling"]["seed"], 3);
}

TEST(Run, WitnessNamesKernelsAndMultipliesOut) {
  const json report = run_json({"--ids", "5,6,7,8", "-n", "3", "--greedy", "--ignore-eos", "--witness"});
  std::uint64_t attention = 0;
  for (const auto& row : report["route"]) {
    EXPECT_FALSE(row["kernel"].get<std::string>().empty());
    if (row["op"] == "attention") attention += row["positions_x_layers"].get<std::uint64_t>();
  }
  EXPECT_EQ(attention, (4U + 2U) * 6U);  // the third token is never fed back
  const Finished text = run_plumb({"run", kModel, "--ids", "5,6", "-n", "2", "--greedy", "--witness", "--checked"});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_NE(text.err.find("positions x layers"), std::string::npos) << text.err;
}

TEST(Run, AnErrorIsOneLineAndAStatus) {
  EXPECT_EQ(run_plumb({"run", kModel}).status, 2);
  EXPECT_EQ(run_plumb({"run", kModel, "-p", "a", "--ids", "1"}).status, 2);
  EXPECT_EQ(run_plumb({"run", kModel, "-p", "a", "--greedy", "--temp", "1"}).status, 2);
  const Finished missing = run_plumb({"run", "/nothing/here", "-p", "a"});
  EXPECT_EQ(missing.status, 1);
  EXPECT_NE(missing.err.find("/nothing/here"), std::string::npos);
  EXPECT_EQ(run_json({"--ids", "4096"}, 1)["error"]["field"], "prompt_ids[0]");
}

}  // namespace
}  // namespace plumb::test
