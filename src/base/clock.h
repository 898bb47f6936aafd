// Time. Everything that waits, paces or stamps takes a Clock by reference, so that a simulation can own the time.
#pragma once

#include <atomic>
#include <cstdint>

namespace plumb {

// Nanoseconds of the system's monotonic clock (CLOCK_MONOTONIC): never goes back, starts anywhere. About 25 ns a call.
// Thread rule: any thread.
std::uint64_t monotonic_ns();

class Clock {
 public:
  virtual ~Clock() = default;
  // Never goes back. Thread rule: any thread.
  virtual std::uint64_t now_ns() const = 0;
};

class MonotonicClock final : public Clock {
 public:
  std::uint64_t now_ns() const override { return monotonic_ns(); }
};

// A clock that moves only when told to: the time of a deterministic simulation.
// Thread rule: any thread reads, one advances.
class VirtualClock final : public Clock {
 public:
  explicit VirtualClock(std::uint64_t start_ns = 0) : now_ns_(start_ns) {}
  std::uint64_t now_ns() const override { return now_ns_.load(std::memory_order_acquire); }
  void advance_ns(std::uint64_t by) { now_ns_.fetch_add(by, std::memory_order_acq_rel); }

 private:
  std::atomic<std::uint64_t> now_ns_;
};

}  // namespace plumb
