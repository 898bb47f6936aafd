// The bundled story model, for tests that need a trained one: its folder, and text it has never seen.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "plumb/plumb.h"

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

// What a stream gave, to its end.
struct Answer {
  std::vector<std::int32_t> ids;
  std::vector<std::uint64_t> digests;
  std::string text;
  Event end;
};

inline Answer drain(Stream& stream) {
  Answer a;
  Event e;
  while (stream.next(e)) {
    if (e.kind == EventKind::token) {
      a.ids.push_back(e.token);
      a.digests.push_back(e.logit_digest);
    }
    a.text += e.text;
    if (e.kind == EventKind::finished) a.end = e;
  }
  return a;
}

}  // namespace plumb::test
