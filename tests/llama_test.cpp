// A second architecture on the same engine: a trained llama2.c model, converted, against its float64 reference.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "subprocess.h"
#include "text/outside_data.h"

namespace plumb::test {
namespace {

using nlohmann::json;

TEST(Llama, GreedyTextIsTheReferences) {
  PLUMB_NEEDS_VECTORS();
  const std::string folder = text::kVectorFolder + "stories260K/";
  const ScratchFolder scratch;
  const std::string gguf = scratch.file("stories260K.gguf");
  const Finished converted = run_plumb({"convert", folder + "stories260K.bin", gguf, "--tokenizer", folder + "tok512.bin", "-q"});
  ASSERT_EQ(converted.status, 0) << converted.out << converted.err;

  const json golden = json::parse(read_file(folder + "golden.json"));
  std::vector<std::int32_t> expected = golden["greedy_ids"];
  ASSERT_EQ(expected.front(), 1);  // the beginning of a text, which is the prompt
  const std::string n = std::to_string(expected.size() - 1);
  const Finished finished = run_plumb({"run", gguf, "--ids", "1", "-n", n, "--greedy", "--ignore-eos", "--json"});
  ASSERT_EQ(finished.status, 0) << finished.out << finished.err;
  const json report = json::parse(finished.out);
  expected.erase(expected.begin());
  EXPECT_EQ(report["ids"].get<std::vector<std::int32_t>>(), expected);
  EXPECT_EQ(report["text"].get<std::string>() + "\n", read_file(folder + "golden_greedy.txt"));

  // The same from text: the tokenizer puts the beginning in front by itself.
  const json example = golden["encode_example"];
  const Finished encoded = run_plumb({"run", gguf, "-p", example["text"], "-n", "0", "--json"});
  ASSERT_EQ(encoded.status, 0) << encoded.err;
  EXPECT_EQ(json::parse(encoded.out)["prompt_ids"], example["ids"]);
}

TEST(Llama, ChatIsRefusedByName) {
  PLUMB_NEEDS_VECTORS();
  const std::string folder = text::kVectorFolder + "stories260K/";
  const ScratchFolder scratch;
  const std::string gguf = scratch.file("stories260K.gguf");
  ASSERT_EQ(run_plumb({"convert", folder + "stories260K.bin", gguf, "--tokenizer", folder + "tok512.bin", "-q"}).status, 0);
  const Finished refused = run_plumb({"chat", gguf});
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.err.find("harmony"), std::string::npos) << refused.err;
}

}  // namespace
}  // namespace plumb::test
