#include "text/byte_level.h"

#include <gtest/gtest.h>

#include <set>

#include "text/tiny_tokenizer.h"

namespace plumb::text {
namespace {

TEST(ByteLevel, IsABijectionOnBytes) {
  std::set<char32_t> chars;
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string one(1, static_cast<char>(byte));
    chars.insert(byte_level_char(static_cast<std::uint8_t>(byte)));
    ASSERT_TRUE(byte_level_bytes(byte_level_spelling(one), bytes));
    EXPECT_EQ(bytes, one);
  }
  EXPECT_EQ(chars.size(), 256U);
}

TEST(ByteLevel, AgreesWithKnownSpellings) {
  EXPECT_EQ(byte_level_spelling(" the"), "Ġthe");
  EXPECT_EQ(byte_level_spelling("\n\t"), "Ċĉ");
  EXPECT_EQ(byte_level_spelling("é"), "Ã©");
  EXPECT_EQ(byte_level_spelling("\xAD"), "Ń");
}

TEST(ByteLevel, RefusesCharactersOutsideTheAlphabet) {
  std::string bytes;
  EXPECT_FALSE(byte_level_bytes("a b", bytes));       // a raw space
  EXPECT_FALSE(byte_level_bytes("\xC5\x84", bytes));  // U+0144, one past the last
  EXPECT_FALSE(byte_level_bytes("▁", bytes));
  EXPECT_FALSE(byte_level_bytes("\xC3", bytes));
}

}  // namespace
}  // namespace plumb::text
