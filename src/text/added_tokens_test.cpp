#include "text/added_tokens.h"

#include <gtest/gtest.h>

namespace plumb::text {
namespace {

TEST(AddedTokens, TheLongestAtTheFirstPlaceWins) {
  AddedTokens tokens;
  EXPECT_TRUE(tokens.empty());
  tokens.add("<a", 1, false);
  tokens.add("<a>", 2, false);
  tokens.add("<a><b>", 3, true);
  tokens.add("b", 4, false);
  EXPECT_FALSE(tokens.empty());
  const auto with = tokens.find("x<a><b>", 0, true);
  EXPECT_EQ(with.id, 3);
  EXPECT_EQ(with.begin, 1U);
  EXPECT_EQ(with.end, 7U);
  const auto without = tokens.find("x<a><b>", 0, false);
  EXPECT_EQ(without.id, 2);
  EXPECT_EQ(tokens.find("x<a><b>", without.end, false).id, 4);
  EXPECT_EQ(tokens.find("<a", 0, true).id, 1);
  EXPECT_EQ(tokens.find("<", 0, true).id, -1);
  EXPECT_EQ(tokens.find("", 0, true).id, -1);
}

}  // namespace
}  // namespace plumb::text
