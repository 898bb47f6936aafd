#include "base/hash.h"

#include <gtest/gtest.h>

namespace plumb {
namespace {

TEST(Hash, KnownValues) {
  // XXH3 of the empty input, from the xxHash specification's test vectors.
  EXPECT_EQ(hash64(std::string_view{}), 0x2D06800538D394C2ULL);
  EXPECT_EQ(hash128(std::string_view{}).hex(), "99aa06d3014798d86001c324468d497f");
}

TEST(Hash, StreamEqualsWhole) {
  std::string text;
  Hasher hasher;
  for (int i = 0; i < 300; ++i) {
    const std::string part(static_cast<std::size_t>(i), static_cast<char>('a' + i % 26));
    hasher.update(part);
    text += part;
  }
  EXPECT_EQ(hasher.digest(), hash128(text));
  hasher.update("x");
  EXPECT_NE(hasher.digest(), hash128(text));
  EXPECT_EQ(hasher.digest(), hash128(text + "x"));
  EXPECT_NE(hash64(text, 1), hash64(text, 2));
}

}  // namespace
}  // namespace plumb
