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

// What a request gave. Equal: the same tokens, drawn from logits of the same bits, and the same end.
struct Answer {
  std::vector<std::int32_t> ids;
  std::vector<std::uint64_t> digests;
  std::string text;
  Event end;

  void take(const Event& e) {
    if (e.kind == EventKind::token) {
      ids.push_back(e.token);
      digests.push_back(e.logit_digest);
    }
    text += e.text;
    if (e.kind == EventKind::finished) end = e;
  }
  bool operator==(const Answer& o) const { return ids == o.ids && digests == o.digests && end.finish == o.end.finish; }
};

inline Answer ask(Engine& engine, const Request& request) {
  Answer a;
  const auto end = engine.generate(request, [&](const Event& e) {
    a.take(e);
    return true;
  });
  EXPECT_TRUE(end.ok()) << end.error().to_string();
  if (end.ok()) a.end = *end;
  return a;
}

inline Answer drain(Stream& stream) {
  Answer a;
  Event e;
  while (stream.next(e)) a.take(e);
  return a;
}

}  // namespace plumb::test
