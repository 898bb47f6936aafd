// What the machine's memory gives to threads that do nothing but read: the ceiling of decode.
#pragma once

#include <cstdint>
#include <utility>

#include "base/status.h"
#include "device/cpu/arena.h"

namespace plumb::device {

// Holds the block that is read, 1 GiB, or less on a small machine, for as long as it lives. So whoever measures between other things keeps
// one: some guests tell their host which memory has become free about two seconds later, and whatever runs while the host takes a gigabyte
// away is slowed (a decode by a third: docs/PEERS.md).
class ReadBandwidth {
 public:
  // For `threads` threads. Errors: out_of_memory. REQUIRES: threads >= 1.
  static Result<ReadBandwidth> open(int threads);

  // Bytes per second at which that many threads read the block, which no cache holds, each its own part, the best of several passes over about
  // `seconds`. Passes read plainly, asking for memory ahead as decode asks for weights, and asking further ahead, in turn: which is
  // fastest differs from one processor to the next, and the fastest is the ceiling.
  // Errors: internal (no threads).
  Result<double> measure(double seconds) const;

 private:
  ReadBandwidth(int threads, Arena block, std::uint64_t part) : threads_(threads), block_(std::move(block)), part_(part) {}

  int threads_;
  Arena block_;
  std::uint64_t part_;  // bytes of one thread
};

}  // namespace plumb::device
