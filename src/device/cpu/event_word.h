// A counter that threads wait on: spin while it is likely to change soon, give the core away after that, sleep in the end.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace plumb::device {

// How long a waiting thread keeps its core. A pause loop answers in tens of nanoseconds but takes a core from whoever could
// use it; a yield loop answers in about a microsecond and lets others run; sleeping answers in five to fifty microseconds.
struct SpinPolicy {
  std::uint32_t pause_us = 0;
  std::uint32_t yield_us = 0;
};

// What a waiting thread has learnt about pausing. When other processes want the cores too, the thread that should arrive is
// often the one that this thread keeps from running, and every wait lasts as long as the patience of the waiter. After a few
// waits that pausing did not end it is tried rarely, until it helps again. Belongs to one thread.
struct SpinMemory {
  std::uint32_t in_vain = 0;  // waits in a row that pausing did not end
  std::uint32_t waits = 0;
};

// Thread rule: any thread.
class EventWord {
 public:
  static constexpr std::uint64_t kForever = UINT64_MAX;

  std::uint32_t load() const { return value_.load(std::memory_order_acquire); }

  // Adds one and wakes every waiter. What was written before is visible to a thread that sees the new value.
  void advance() {
    // Sequentially consistent on both sides: either the waiter sees the new value or we see the waiter.
    value_.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) != 0) wake_all();
  }

  // Returns when the value is no longer `old`, or after `timeout_ns` (then false).
  bool wait_while(std::uint32_t old, const SpinPolicy& policy, std::uint64_t timeout_ns = kForever);

  // As above without a time limit, for waits that usually end at once.
  void wait_briefly(std::uint32_t old, const SpinPolicy& policy, SpinMemory& memory) {
    constexpr std::uint32_t kGiveUp = 4;   // one long launch among short ones must not count
    constexpr std::uint32_t kTryAgain = 32;
    // Two workers on one of two cores, the other taken by a compiler: 84 us a barrier with pausing, 15 us without, and
    // 3 us when the core is given to the other worker a few times before sleeping.
    constexpr std::uint32_t kYieldInVainUs = 20;
    ++memory.waits;
    if (memory.in_vain < kGiveUp || memory.waits % kTryAgain == 0) {
      if (pause_while(old, policy)) {
        memory.in_vain = 0;
        return;
      }
      if (memory.in_vain < kGiveUp) ++memory.in_vain;
    }
    wait_while(old, {0, memory.in_vain < kGiveUp ? policy.yield_us : std::min(policy.yield_us, kYieldInVainUs)});
  }

  // REQUIRES: nobody waits.
  void reset() { value_.store(0, std::memory_order_relaxed); }

 private:
  // The pausing part of the policy: true when the value changed.
  bool pause_while(std::uint32_t old, const SpinPolicy& policy);
  void wake_all();

  std::atomic<std::uint32_t> value_{0};
  std::atomic<std::uint32_t> sleepers_{0};
};

}  // namespace plumb::device
