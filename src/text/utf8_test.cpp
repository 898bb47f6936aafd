#include "text/utf8.h"

#include <gtest/gtest.h>

namespace plumb::text {
namespace {

TEST(Utf8, EveryScalarValueGoesThereAndBack) {
  std::string text;
  for (char32_t scalar = 0; scalar <= 0x10FFFF; ++scalar) {
    if (scalar >= 0xD800 && scalar <= 0xDFFF) continue;
    text.clear();
    append_utf8(text, scalar);
    const Utf8Step step = utf8_step(text, 0);
    ASSERT_TRUE(step.valid) << std::hex << static_cast<std::uint32_t>(scalar);
    ASSERT_EQ(step.value, scalar);
    ASSERT_EQ(step.length, text.size());
    ASSERT_EQ(utf8_valid_prefix(text), text.size());
  }
}

TEST(Utf8, RefusesWhatIsNotUtf8) {
  for (const std::string_view bad :
       {"\x80", "\xC0\xAF", "\xC1\xBF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x80\x80\x80", "\xF4\x90\x80\x80", "\xF5", "\xFF"}) {
    EXPECT_FALSE(utf8_step(bad, 0).valid);
    EXPECT_EQ(utf8_valid_prefix(bad), 0U);
  }
  EXPECT_EQ(utf8_valid_prefix("eight888bytes\xC3"), 13U);
}

// The examples of the Unicode standard's table on U+FFFD substitution of maximal subparts.
TEST(Utf8, ReplacesMaximalSubparts) {
  const std::string r(kReplacement);
  EXPECT_EQ(utf8_repaired("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(utf8_repaired("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(utf8_repaired("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(utf8_repaired("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), r + r + r + r + "A");
}

TEST(Utf8, KnowsWhichTailsMayContinue) {
  EXPECT_TRUE(utf8_may_continue("\xF0\x9F\xA6"));
  EXPECT_TRUE(utf8_may_continue("\xE2"));
  EXPECT_FALSE(utf8_may_continue("\xF0\x80"));
  EXPECT_FALSE(utf8_may_continue("\x80"));
  EXPECT_FALSE(utf8_may_continue("\xFF"));
  EXPECT_FALSE(utf8_may_continue("\xE2" "A"));
  EXPECT_FALSE(utf8_may_continue("A"));
  EXPECT_FALSE(utf8_may_continue(""));
}

}  // namespace
}  // namespace plumb::text
