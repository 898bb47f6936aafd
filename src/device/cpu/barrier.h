// The barrier between two launches of a job list.
#pragma once

#include <atomic>
#include <cstdint>

#include "device/cpu/event_word.h"

namespace plumb::device {

// All `count` threads arrive; the last one runs a function while the others still wait, then all go on. The function is
// where a launch is settled: counted faults, time stamps, the decision to stop. Nobody else touches the buffer meanwhile.
// Thread rule: exactly `count` threads use it, each with a memory of its own.
class Barrier {
 public:
  // `pause_us`: how long to wait without giving up the core.
  Barrier(int count, std::uint32_t pause_us) : count_(static_cast<std::uint32_t>(count)), pause_us_(pause_us) {}

  template <class F>
  void arrive(SpinMemory& memory, F&& last) {
    if (count_ == 1) {
      last();
      return;
    }
    const std::uint32_t generation = generation_.load();  // cannot move before this thread has arrived
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == count_) {
      arrived_.store(0, std::memory_order_relaxed);
      last();
      generation_.advance();
    } else {
      generation_.wait_while(generation, pause_us_, memory);
    }
  }

 private:
  // Two lines apart (the prefetcher fetches pairs): arrivals must not disturb those who wait.
  alignas(128) std::atomic<std::uint32_t> arrived_{0};
  alignas(128) EventWord generation_;
  alignas(128) std::uint32_t count_;
  std::uint32_t pause_us_;
};

}  // namespace plumb::device
