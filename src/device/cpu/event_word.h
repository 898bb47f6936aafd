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
// Those who wait for each other must try again in the same waits: one that pauses alone waits for others to be woken, finds pausing of
// no use, and so does each of them in its turn, long after the cores are free again. So tries go by the number of the wait, which they
// have in common, a few in a row, and with more patience, as the first finds the others asleep.
//
// Measured with two workers and compilers on two cores, a barrier: always pausing 20 us and then yielding 84 us; with this
// memory and sleep 5 to 20 us. Giving the core away with sched_yield between the two looks better at the median (3 us) and
// is refused for its tail: a yield waits behind every runnable process, 4 to 500 ms at the 90th percentile.
class SpinMemory {
 public:
  // Whether to pause in wait number `wait`.
  bool worth_it(std::uint32_t wait) const { return in_vain_ < kGiveUp || wait % interval_ < kTries; }
  // For how long, where `pause_us` is the usual time.
  std::uint32_t patience(std::uint32_t pause_us) const { return in_vain_ < kGiveUp ? pause_us : kTryPatience * pause_us; }
  // How that pause ended.
  void learn(std::uint32_t wait, bool helped) {
    if (helped) {
      // One lucky try is not yet a habit: the next failure ends it.
      in_vain_ = in_vain_ == kGiveUp ? kGiveUp - 1 : 0;
      interval_ = kFirstInterval;
    } else if (in_vain_ < kGiveUp) {
      ++in_vain_;
    } else if (wait % interval_ == kTries - 1) {
      interval_ = std::min(2 * interval_, kLastInterval);
    }
  }

 private:
  static constexpr std::uint32_t kGiveUp = 4;  // one long launch among short ones must not count
  static constexpr std::uint32_t kTries = 4;
  static constexpr std::uint32_t kTryPatience = 4;
  static constexpr std::uint32_t kFirstInterval = 32;  // powers of two, so that rare tries are among the frequent ones of others
  static constexpr std::uint32_t kLastInterval = 1024;
  std::uint32_t in_vain_ = 0;  // waits in a row that pausing did not end
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

  // Pauses up to `pause_us`, or longer for a try, as long as that pays, then sleeps. `old` is the number of the wait.
  void wait_while(std::uint32_t old, std::uint32_t pause_us, SpinMemory& memory) {
    if (pause_us != 0 && memory.worth_it(old)) {
      const bool helped = pause_while(old, memory.patience(pause_us));
      memory.learn(old, helped);
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
