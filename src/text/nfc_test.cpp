#include "text/nfc.h"

#include <gtest/gtest.h>

#include "text/tiny_tokenizer.h"
#include "text/tokenizer.h"

#include <nlohmann/json.hpp>

namespace plumb::text {
namespace {

TEST(Nfc, ComposesAndOrders) {
  EXPECT_EQ(to_nfc("plain Å é"), "plain Å é");
  EXPECT_EQ(to_nfc("e\u0301"), "é");
  EXPECT_EQ(to_nfc("\u212B"), "Å");                                          // a singleton
  EXPECT_EQ(to_nfc("q\u0307\u0323"), "q\u0323\u0307");                       // ordered
  EXPECT_EQ(to_nfc("\u1E0B\u0323"), "\u1E0D\u0307");                         // decomposed, ordered, composed otherwise
  EXPECT_EQ(to_nfc("\u1100\u1161\u11A8"), "각");                             // Hangul is arithmetic
  EXPECT_EQ(to_nfc("\u0958"), "\u0915\u093C");                               // excluded from composition
  EXPECT_EQ(to_nfc("\U0001D15E"), "\U0001D157\U0001D165");
  EXPECT_EQ(to_nfc(""), "");
}

TEST(Nfc, MarksOfOneClassKeepTheirOrder) {
  std::string mixed = "q";
  std::string below;
  std::string above;
  for (int i = 0; i < 100; ++i) {
    const std::string_view mark = i % 3 == 0 ? "\u0302" : i % 3 == 1 ? "\u030B" : "\u0346";
    mixed.append(mark).append("\u0323");
    above += mark;
    below += "\u0323";
  }
  EXPECT_EQ(to_nfc(mixed), "q" + below + above);
}

TEST(Nfc, ALongRunOfMarksIsNoTrouble) {
  std::string marks = "a";
  for (int i = 0; i < 200'000; ++i) marks += i % 2 == 0 ? "\u0301" : "\u0323";
  const std::string composed = to_nfc(marks);
  EXPECT_EQ(composed.substr(0, 3), "\u1EA1");
  EXPECT_EQ(to_nfc(composed), composed);
}

TEST(Nfc, IsAppliedWhenTheFileAsksForIt) {
  auto json = tiny_tokenizer_json();
  json["normalizer"] = {{"type", "NFC"}};
  const auto loaded = tokenizer_from_json(json.dump(), "tiny.json");
  ASSERT_FALSE(loaded.ok());  // <tool> is looked for in normalized text there
  EXPECT_EQ(loaded.error().field, "added_tokens.normalized");
  for (auto& token : json["added_tokens"]) token["normalized"] = false;
  const auto tokenizer = tokenizer_from_json(json.dump(), "tiny.json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().to_string();
  const auto ids = tokenizer->encode("e\u0301");
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(tokenizer->decode(*ids), "é");
}

}  // namespace
}  // namespace plumb::text
