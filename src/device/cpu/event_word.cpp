#include "device/cpu/event_word.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

#include "base/clock.h"

namespace plumb::device {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == 4 && std::atomic<std::uint32_t>::is_always_lock_free,
              "the kernel reads the word in place");

// Sleeps while *word == old; wakes spuriously at times. std::atomic::wait has no time limit, hence the system call.
void futex_wait(std::atomic<std::uint32_t>* word, std::uint32_t old, std::uint64_t timeout_ns) {
  timespec limit{};
  limit.tv_sec = static_cast<time_t>(timeout_ns / 1000000000U);
  limit.tv_nsec = static_cast<long>(timeout_ns % 1000000000U);
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, old, timeout_ns == EventWord::kForever ? nullptr : &limit, nullptr, 0);
}

}  // namespace

bool EventWord::wait_slowly(std::uint32_t old, const SpinPolicy& policy, std::uint64_t timeout_ns) {
  const std::uint64_t start = monotonic_ns();
  const std::uint64_t pause_ns = std::uint64_t{policy.pause_us} * 1000;
  const std::uint64_t spin_ns = pause_ns + std::uint64_t{policy.yield_us} * 1000;
  std::uint64_t elapsed = 0;
  while (elapsed < spin_ns && elapsed < timeout_ns) {
    if (elapsed < pause_ns) {
      for (int i = 0; i < kFirstLook && load() == old; ++i) pause();
    } else {
      sched_yield();
    }
    if (load() != old) return true;
    elapsed = monotonic_ns() - start;
  }
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  bool changed = false;
  for (;;) {
    changed = value_.load(std::memory_order_seq_cst) != old;
    if (changed) break;
    if (timeout_ns != kForever) {
      elapsed = monotonic_ns() - start;
      if (elapsed >= timeout_ns) break;
      futex_wait(&value_, old, timeout_ns - elapsed);
    } else {
      futex_wait(&value_, old, kForever);
    }
  }
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  return changed;
}

void EventWord::wake_all() { syscall(SYS_futex, &value_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0); }

}  // namespace plumb::device
