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
// How long a pause may be. Threads that wait for each other and are less patient than a wake takes fall asleep in turn, each because it
// waits for another to be woken: what disturbed one of them once goes on for hundreds of waits. So a pause lasts at least twice as long
// as this thread has seen its wakes take; who waits about as long as sleeping costs is never far from the best (Karlin, Manasse, McGeoch,
// Owicki, "Competitive randomized algorithms for nonuniform problems", 1994). A guest of a crowded host is back in hundreds of
// microseconds; beside busy processes of the same system it is ten. Beyond that a pause may go on for up to kLongNs, but only a fortieth of
// the time may go there: enough for what is rare (the host's thread takes a core for a moment), too little to keep a core from those who
// want it for long. docs/BENCHMARKS.md, "Waiting for each other", has the figures.
//
// Measured with two workers and compilers on two cores, a barrier: always pausing 20 us and then yielding 84 us; with this
// memory and sleep 5 to 20 us. Giving the core away with sched_yield between the two looks better at the median (3 us) and
// is refused for its tail: a yield waits behind every runnable process, 4 to 500 ms at the 90th percentile.
class SpinMemory {
 public:
  static constexpr std::uint64_t kLongNs = 1'000'000;

  // Whether to pause in wait number `wait`.
  bool worth_it(std::uint32_t wait) const { return in_vain_ < kGiveUp || wait % interval_ < kTries; }
  // For how long at least, where `usual_ns` is the usual time.
  std::uint64_t patience_ns(std::uint64_t usual_ns) const {
    return std::max(in_vain_ < kGiveUp ? usual_ns : kTryPatience * usual_ns, 2 * wake_ns_);
  }
  // For how much longer, once that has passed; `now_ns` is a clock's.
  std::uint64_t extension_ns(std::uint64_t now_ns) {
    if (in_vain_ >= kGiveUp) return 0;
    credit_ns_ = std::min(kLongNs, credit_ns_ + (now_ns - credited_ns_) / kCreditShare);
    credited_ns_ = now_ns;
    return credit_ns_;
  }
  // How much of the extension was used.
  void spend(std::uint64_t ns) { credit_ns_ -= std::min(ns, credit_ns_); }
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
  // It took so long from the event that ended a sleep until this thread ran again. About seven in ten wakes are no longer than wake_ns_.
  void woke_after(std::uint64_t ns) {
    wake_ns_ = std::clamp(ns > wake_ns_ ? wake_ns_ + wake_ns_ / 8 * 3 : wake_ns_ - wake_ns_ / 8, kShortestWakeNs, kLongestWakeNs);
  }

 private:
  static constexpr std::uint32_t kGiveUp = 4;  // one long launch among short ones must not count
  static constexpr std::uint32_t kTries = 4;
  static constexpr std::uint32_t kTryPatience = 4;
  static constexpr std::uint32_t kFirstInterval = 32;  // powers of two, so that rare tries are among the frequent ones of others
  static constexpr std::uint32_t kLastInterval = 1024;
  static constexpr std::uint64_t kCreditShare = 40;
  static constexpr std::uint64_t kShortestWakeNs = 8'000;
  static constexpr std::uint64_t kLongestWakeNs = 1'000'000;
  std::uint32_t in_vain_ = 0;  // waits in a row that pausing did not end
  std::uint32_t interval_ = kFirstInterval;
  std::uint64_t wake_ns_ = kShortestWakeNs;
  std::uint64_t credit_ns_ = 0;
  std::uint64_t credited_ns_ = 0;
};

// Thread rule: any thread.
class EventWord {
 public:
  static constexpr std::uint64_t kForever = UINT64_MAX;

  std::uint32_t load() const { return value_.load(std::memory_order_acquire); }
  bool has_sleepers() const { return sleepers_.load() != 0; }

  // Adds one and wakes every waiter. What was written before is visible to a thread that sees the new value.
  void advance() {
    if (has_sleepers()) stamp();
    // Sequentially consistent on both sides: either the waiter sees the new value or we see the waiter.
    value_.fetch_add(1, std::memory_order_seq_cst);
    if (has_sleepers()) wake_all();
  }

  // Returns when the value is no longer `old`, or after `timeout_ns` of sleep (then false). Does not pause.
  bool sleep_while(std::uint32_t old, std::uint64_t timeout_ns = kForever);

  // Pauses for `pause_us` or as long as `memory` knows better, where that pays, then sleeps. `old` is the number of the wait.
  void wait_while(std::uint32_t old, std::uint32_t pause_us, SpinMemory& memory) {
    if (pause_us != 0 && memory.worth_it(old)) {
      const bool helped = pause_while(old, pause_us, memory);
      memory.learn(old, helped);
      if (helped) return;
    }
    sleep_and_measure(old, memory);
  }

  // REQUIRES: nobody waits.
  void reset() { value_.store(0, std::memory_order_relaxed); }

 private:
  // True when the value changed within the time.
  bool pause_for(std::uint32_t old, std::uint64_t ns);
  bool pause_while(std::uint32_t old, std::uint32_t pause_us, SpinMemory& memory);
  void sleep_and_measure(std::uint32_t old, SpinMemory& memory);
  void stamp();
  void wake_all();

  std::atomic<std::uint32_t> value_{0};
  std::atomic<std::uint32_t> sleepers_{0};
  std::atomic<std::uint64_t> advanced_ns_{0};  // when the value last changed while somebody slept
};

}  // namespace plumb::device
