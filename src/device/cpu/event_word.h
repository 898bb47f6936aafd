// A counter that threads wait on: spin while it is likely to change soon, give the core away after that, sleep in the end.
#pragma once

#include <atomic>
#include <cstdint>

namespace plumb::device {

// How long a waiting thread keeps its core. A pause loop answers in tens of nanoseconds but takes a core from whoever could
// use it; a yield loop answers in about a microsecond and lets others run; sleeping answers in five to fifty microseconds.
struct SpinPolicy {
  std::uint32_t pause_us = 0;
  std::uint32_t yield_us = 0;
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
  bool wait_while(std::uint32_t old, const SpinPolicy& policy, std::uint64_t timeout_ns = kForever) {
    for (int i = 0; i < kFirstLook; ++i) {
      if (load() != old) return true;
      pause();
    }
    return wait_slowly(old, policy, timeout_ns);
  }

  // REQUIRES: nobody waits.
  void reset() { value_.store(0, std::memory_order_relaxed); }

 private:
  static constexpr int kFirstLook = 64;  // about two microseconds; a balanced launch ends within it

  static void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb" ::: "memory");
#endif
  }
  bool wait_slowly(std::uint32_t old, const SpinPolicy& policy, std::uint64_t timeout_ns);
  void wake_all();

  std::atomic<std::uint32_t> value_{0};
  std::atomic<std::uint32_t> sleepers_{0};
};

}  // namespace plumb::device
