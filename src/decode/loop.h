// Decode loops: when a step is launched and when the host looks at its result.
//
// A loop decides nothing about requests. It drives a LoopHost (the scheduler), which plans, opens, launches and settles through
// the StepBook; so every loop leaves behind the same things, and a faster loop is only another order of the same calls.
// Adding a loop is one file and one line in loops.cpp.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace plumb::decode {

// What came of an attempt to launch a step.
enum class Launch : std::uint8_t {
  launched,
  nothing,       // no request has a row to compute
  needs_oldest,  // the oldest step in flight must settle first (its tokens decide how this step is drawn)
  needs_rest,    // everything in flight must settle first (admission, memory, a prompt to compute)
};

// Thread rule: one thread.
class LoopHost {
 public:
  virtual ~LoopHost() = default;
  virtual std::size_t in_flight() const = 0;
  // Takes in requests and orders, passes deadlines; admits, when nothing is in flight.
  virtual void coordinate() = 0;
  // Something waits for the chain to end: an admissible request, an order, memory.
  virtual bool wants_rest() const = 0;
  // The oldest step in flight computes rows of a prompt (no other can: a chain comes to rest for one). Somebody waits for what comes of it, a
  // first token or how far the prompt is.
  virtual bool prompt_in_flight() const = 0;
  // Plans, opens and submits one step. `ahead`: the tokens of the step before have not settled; they are taken from the device.
  virtual Launch launch(bool ahead) = 0;
  // Waits for the `count` oldest steps; settles and delivers them in order. REQUIRES: 1 <= count <= in_flight().
  virtual void settle(std::size_t count) = 0;
};

class Loop {
 public:
  virtual ~Loop() = default;
  // One turn; false when there was nothing to do. Leaves at most depth() steps in flight.
  virtual bool turn(LoopHost& host) = 0;
  // Steps in flight at once.
  virtual std::int32_t depth() const = 0;
};

struct LoopEntry {
  const char* name;
  const char* what;
  bool chained;  // takes a depth, "name:k"
  // Host waits per token that this loop declares, at most, for `k` steps ahead and one request.
  double (*waits_per_token)(std::int32_t k);
  std::unique_ptr<Loop> (*make)(std::int32_t k);
};

std::span<const LoopEntry> loops();

inline constexpr std::int32_t kDefaultChain = 4;   // long enough to hide a host's work, short enough to admit within 5 steps
inline constexpr std::int32_t kLongestChain = 64;  // window slack and result ring grow with it

struct LoopChoice {
  const LoopEntry* entry = nullptr;
  std::int32_t k = 0;  // steps ahead; 0 for loops without a chain
};

// "standard", "chained", "chained:8". Errors: invalid_argument naming the loops there are, or the range of k.
Result<LoopChoice> parse_loop(std::string_view text);
std::string to_string(const LoopChoice& choice);

}  // namespace plumb::decode
