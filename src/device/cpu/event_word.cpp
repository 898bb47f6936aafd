#include "device/cpu/event_word.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

#include "base/clock.h"

namespace plumb::device {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == 4 && std::atomic<std::uint32_t>::is_always_lock_free,
              "the kernel reads the word in place");

constexpr int kRound = 64;  // about two microseconds; a balanced launch ends within it

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

// Sleeps while *word == old; wakes spuriously at times. std::atomic::wait has no time limit, hence the system call.
void futex_wait(std::atomic<std::uint32_t>* word, std::uint32_t old, std::uint64_t timeout_ns) {
  timespec limit{};
  limit.tv_sec = static_cast<time_t>(timeout_ns / 1000000000U);
  limit.tv_nsec = static_cast<long>(timeout_ns % 1000000000U);
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, old, timeout_ns == EventWord::kForever ? nullptr : &limit, nullptr, 0);
}

}  // namespace

bool EventWord::pause_for(std::uint32_t old, std::uint64_t ns) {
  std::uint64_t end = 0;  // the clock is read only after the first round, which ends most waits
  for (;;) {
    for (int i = 0; i < kRound; ++i) {
      if (load() != old) return true;
      relax();
    }
    const std::uint64_t now = monotonic_ns();
    if (end == 0) {
      end = now + ns;
    } else if (now >= end) {
      return false;
    }
  }
}

bool EventWord::pause_while(std::uint32_t old, std::uint32_t pause_us, SpinMemory& memory) {
  if (pause_for(old, memory.patience_ns(std::uint64_t{pause_us} * 1000))) return true;
  const std::uint64_t start = monotonic_ns();
  const std::uint64_t longer = memory.extension_ns(start);
  if (longer == 0) return false;
  const bool changed = pause_for(old, longer);
  memory.spend(monotonic_ns() - start);
  return changed;
}

void EventWord::sleep_and_measure(std::uint32_t old, SpinMemory& memory) {
  const std::uint64_t start = monotonic_ns();
  sleep_while(old);
  // An earlier stamp says nothing of this sleep: whoever changed the value had looked for sleepers just before this thread was one.
  const std::uint64_t advanced = advanced_ns_.load(std::memory_order_relaxed);
  if (advanced >= start) memory.woke_after(monotonic_ns() - advanced);
}

void EventWord::stamp() { advanced_ns_.store(monotonic_ns(), std::memory_order_relaxed); }

bool EventWord::sleep_while(std::uint32_t old, std::uint64_t timeout_ns) {
  const std::uint64_t start = timeout_ns != kForever ? monotonic_ns() : 0;
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  bool changed = false;
  for (;;) {
    changed = value_.load(std::memory_order_seq_cst) != old;
    if (changed) break;
    std::uint64_t left = kForever;
    if (timeout_ns != kForever) {
      const std::uint64_t elapsed = monotonic_ns() - start;
      if (elapsed >= timeout_ns) break;
      left = timeout_ns - elapsed;
    }
    futex_wait(&value_, old, left);
  }
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  return changed;
}

void EventWord::wake_all() { syscall(SYS_futex, &value_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0); }

}  // namespace plumb::device
