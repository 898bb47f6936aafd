#include "decode/loop.h"

#include <gtest/gtest.h>

#include <set>

namespace plumb::decode {
namespace {

TEST(Loops, AreNamedOnceAndMakeWhatTheySay) {
  std::set<std::string> names;
  for (const LoopEntry& entry : loops()) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    const auto choice = parse_loop(entry.name);
    ASSERT_TRUE(choice.ok()) << choice.error().to_string();
    EXPECT_EQ(choice->entry, &entry);
    EXPECT_EQ(entry.make(choice->k)->depth(), choice->k + 1);
    EXPECT_EQ(parse_loop(to_string(*choice))->k, choice->k) << "what is printed can be given again";
  }
}

TEST(Loops, AChainHasItsLength) {
  EXPECT_EQ(parse_loop("chained:7")->k, 7);
  EXPECT_EQ(parse_loop("chained:64")->k, kLongestChain);
}

TEST(Loops, AnythingElseIsRefusedWithTheReason) {
  const auto said = [](std::string_view text) {
    const auto choice = parse_loop(text);
    return choice.ok() ? std::string("accepted") : choice.error().to_string();
  };
  for (const char* text : {"", "persistent", "Chained", "chained4"}) EXPECT_NE(said(text).find("standard, chained[:k]"), std::string::npos) << said(text);
  for (const char* text : {"chained:", "chained:0", "chained:65", "chained:-1", "chained:2x", "chained:99999999999"}) {
    EXPECT_NE(said(text).find("from 1 to 64"), std::string::npos) << said(text);
  }
  EXPECT_NE(said("standard:3").find("takes no k"), std::string::npos) << said("standard:3");
}

}  // namespace
}  // namespace plumb::decode
