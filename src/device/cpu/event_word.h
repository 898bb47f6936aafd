// A counter that threads wait on: pause while it is likely to change soon, then sleep.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace plumb::device {

// What a waiting thread has learnt about pausing. Pausing answers in tens of nanoseconds, sleeping in five to fifty
// microseconds. But when other processes want the cores too, the thread that should arrive is often the one that this thread
// keeps from running, and then every wait lasts as long as the waiter is patient. So after a few waits that pausing did not
// end it is tried ever more rarely, until it helps again. Belongs to one thread.
//
// Measured with two workers and compilers on two cores, a barrier: always pausing 20 us and then yielding 84 us; with this
// memory and sleep 5 to 20 us. Giving the core away with sched_yield between the two looks better at the median (3 us) and
// is refused for its tail: a yield waits behind every runnable process, 4 to 500 ms at the 90th percentile.
class SpinMemory {
 public:
  // Whether to pause in the coming wait.
  bool worth_it() { return in_vain_ < kGiveUp || ++skipped_ >= interval_; }
  // How that pause ended.
  void learn(bool helped) {
    skipped_ = 0;
    if (helped) {
      // One lucky try is not yet a habit: the next failure ends it.
      in_vain_ = in_vain_ == kGiveUp ? kGiveUp - 1 : 0;
      interval_ = kFirstInterval;
    } else if (in_vain_ < kGiveUp) {
      ++in_vain_;
    } else {
      interval_ = std::min(2 * interval_, kLastInterval);
    }
  }

 private:
  static constexpr std::uint32_t kGiveUp = 4;  // one long launch among short ones must not count
  static constexpr std::uint32_t kFirstInterval = 32;
  static constexpr std::uint32_t kLastInterval = 1024;
  std::uint32_t in_vain_ = 0;  // waits in a row that pausing did not end
  std::uint32_t skipped_ = 0;
  std::uint32_t interval_ = kFirstInterval;
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

  // Returns when the value is no longer `old`, or after `timeout_ns` of sleep (then false). Does not pause.
  bool sleep_while(std::uint32_t old, std::uint64_t timeout_ns = kForever);

  // Pauses up to `pause_us` as long as that pays, then sleeps.
  void wait_while(std::uint32_t old, std::uint32_t pause_us, SpinMemory& memory) {
    if (pause_us != 0 && memory.worth_it()) {
      const bool helped = pause_while(old, pause_us);
      memory.learn(helped);
      if (helped) return;
    }
    sleep_while(old);
  }

  // REQUIRES: nobody waits.
  void reset() { value_.store(0, std::memory_order_relaxed); }

 private:
  // True when the value changed within the time.
  bool pause_while(std::uint32_t old, std::uint32_t pause_us);
  void wake_all();

  std::atomic<std::uint32_t> value_{0};
  std::atomic<std::uint32_t> sleepers_{0};
};

}  // namespace plumb::device
