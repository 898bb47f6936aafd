#include "text/split_regex.h"

#include <gtest/gtest.h>

#include "text/byte_level_bpe.h"

namespace plumb::text {
namespace {

std::vector<std::string> split(std::string_view pattern, std::string_view text, SplitKeep keep = SplitKeep::both) {
  const auto regex = SplitRegex::compile(pattern, keep, "test", "pattern");
  EXPECT_TRUE(regex.ok()) << regex.error().to_string();
  if (!regex.ok()) return {};
  std::vector<Piece> pieces;
  const Status done = regex->split(text, {{0, static_cast<std::uint32_t>(text.size())}}, pieces);
  EXPECT_TRUE(done.ok()) << done.error().to_string();
  std::vector<std::string> out;
  for (const Piece& piece : pieces) out.emplace_back(text.substr(piece.begin, piece.end - piece.begin));
  return out;
}

using Parts = std::vector<std::string>;

TEST(SplitRegex, SplitsAsGpt2Does) {
  EXPECT_EQ(split(kGpt2Split, "It's 12  dogs!! \n"), (Parts{"It", "'s", " 12", " ", " dogs", "!!", " \n"}));
}

TEST(SplitRegex, KeepsMatchesGapsOrBoth) {
  EXPECT_EQ(split("\\d+", "ab12cd3", SplitKeep::both), (Parts{"ab", "12", "cd", "3"}));
  EXPECT_EQ(split("\\d+", "ab12cd3", SplitKeep::matches), (Parts{"12", "3"}));
  EXPECT_EQ(split("\\d+", "ab12cd3", SplitKeep::gaps), (Parts{"ab", "cd"}));
}

TEST(SplitRegex, AnEmptyMatchIsABoundary) {
  EXPECT_EQ(split("(?=\\d)", "ab12é3"), (Parts{"ab", "1", "2é", "3"}));
  EXPECT_EQ(split("x*", "é"), (Parts{"é"}));
}

TEST(SplitRegex, EachPieceIsATextOfItsOwn) {
  const auto regex = SplitRegex::compile("(?<=a)b|\\Ac", SplitKeep::both, "test", "pattern");
  ASSERT_TRUE(regex.ok());
  std::vector<Piece> pieces;
  ASSERT_TRUE(regex->split("abcd", {{0, 1}, {1, 2}, {2, 4}}, pieces).ok());
  ASSERT_EQ(pieces.size(), 4U);  // a, b, c, d: the look-behind does not reach into the piece before
}

TEST(SplitRegex, WhiteSpaceIsTheUnicodeProperty) {
  EXPECT_EQ(split("\\s+", "a\u00A0\u3000\u2028\x85z"), split("[\\s]+", "a\u00A0\u3000\u2028\x85z"));
  EXPECT_EQ(split("\\s+", "a\u180Eb"), (Parts{"a\u180Eb"}));  // a format character, and white space only to PCRE2
  EXPECT_EQ(split("\\S+", "a\u180Eb c"), (Parts{"a\u180Eb", " ", "c"}));
}

TEST(SplitRegex, AScriptNameIsTheScript) {
  // U+3001 belongs to Common, with Han among its script extensions.
  EXPECT_EQ(split("\\p{Han}+", "中、文"), (Parts{"中", "、", "文"}));
}

TEST(SplitRegex, RefusesByName) {
  for (const std::string_view pattern : {"\\h", "\\v", "\\R", "\\K", "\\Qa", "[a[b]]", "[a&&b]", "a{1,2}+", "a{,2}", "(?m)a",
                                         "(*UTF)a", "(?<n>a)", "(?P<n>a)", "[\\S]", "\\u12", "(?#c)", "\\1"}) {
    const auto regex = SplitRegex::compile(pattern, SplitKeep::both, "file", "where");
    ASSERT_FALSE(regex.ok()) << pattern;
    EXPECT_EQ(regex.error().code, ErrorCode::unsupported) << pattern;
    EXPECT_EQ(regex.error().field, "where");
    EXPECT_FALSE(regex.error().value.empty());
  }
  for (const std::string_view pattern : {"a\\", "[a", "(a", "\\p{Nonsense}", "\\p{L", "*a", "\\p"}) {
    const auto regex = SplitRegex::compile(pattern, SplitKeep::both, "file", "where");
    ASSERT_FALSE(regex.ok()) << pattern;
    EXPECT_EQ(regex.error().code, ErrorCode::malformed) << pattern;
  }
  const auto huge = SplitRegex::compile(std::string(20'000, 'a'), SplitKeep::both, "file", "where");
  EXPECT_EQ(huge.error().code, ErrorCode::limit_exceeded);
}

TEST(SplitRegex, StopsAnExpressionThatBacktracksWithoutEnd) {
  const auto regex = SplitRegex::compile("(a+)+[bc]", SplitKeep::both, "file", "where");
  ASSERT_TRUE(regex.ok());
  const std::string text(200, 'a');
  std::vector<Piece> pieces;
  const Status done = regex->split(text, {{0, 200}}, pieces);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, ErrorCode::limit_exceeded);
}

TEST(SplitRegex, DoesNotNeedStackForLongMatches) {
  // Each letter goes through a group, which the just-in-time matcher keeps on its small stack.
  const std::string text(300'000, 'a');
  const auto regex = SplitRegex::compile("(?:a|b)+", SplitKeep::both, "file", "where");
  ASSERT_TRUE(regex.ok());
  std::vector<Piece> pieces;
  const Status done = regex->split(text, {{0, static_cast<std::uint32_t>(text.size())}}, pieces);
  EXPECT_TRUE(done.ok() || done.error().code == ErrorCode::limit_exceeded) << done.error().to_string();
}

}  // namespace
}  // namespace plumb::text
