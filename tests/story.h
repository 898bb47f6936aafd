// The bundled story model, for tests that need a trained one: its folder, and text it has never seen.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

namespace plumb::test {

inline const std::string kStoryModel = PLUMB_SOURCE_DIR "/models/story";

// Tokens [from, from + n) of the held-out text.
inline std::vector<std::int32_t> heldout(std::size_t from, std::size_t n) {
  std::ifstream file(kStoryModel + "/heldout.u16", std::ios::binary);
  file.seekg(static_cast<std::streamoff>(from * 2));
  std::vector<std::uint16_t> raw(n);
  file.read(reinterpret_cast<char*>(raw.data()), static_cast<std::streamsize>(n * 2));
  EXPECT_TRUE(file.good());
  return {raw.begin(), raw.end()};
}

}  // namespace plumb::test
