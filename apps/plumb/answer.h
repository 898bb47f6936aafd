// One answer, gathered from the events of its request.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "plumb/plumb.h"

namespace plumb::app {

// What came out, and what it is known by.
struct Answer {
  std::vector<std::int32_t> ids;
  std::string text;
  std::vector<std::uint64_t> digests;
  Event end;  // once it has finished
  std::uint64_t host_waits = 0;  // times the host blocked on the device meanwhile

  void take(Event&& event) {
    if (event.kind == EventKind::token) {
      ids.push_back(event.token);
      digests.push_back(event.logit_digest);
    }
    text += event.text;
    if (event.kind == EventKind::finished) end = std::move(event);
  }

  // XXH3-128 over the generated ids (int32), and over the 64-bit logit digests they were drawn from; little endian.
  std::string token_fingerprint() const { return hash128(std::as_bytes(std::span(ids))).hex(); }
  std::string logit_fingerprint() const { return hash128(std::as_bytes(std::span(digests))).hex(); }
};

inline double per_second(double count, double ms) { return ms > 0 ? count * 1000 / ms : 0; }

// Tokens per second of decoding. The first token comes out of the prompt's last step, so it is no decode step.
inline double decode_rate(const Usage& usage) {
  return usage.completion_tokens > 1 ? per_second(usage.completion_tokens - 1, usage.completion_ms) : 0;
}

}  // namespace plumb::app
