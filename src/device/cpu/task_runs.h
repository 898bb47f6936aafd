// The tasks of a launch, handed out so that each worker walks through memory without a jump.
//
// Every worker has a run of neighbouring tasks and takes them in order; one that is done takes from the *end* of a run that is behind.
// Weights that are read once then come as one long stream a worker, which is what prefetchers follow and what keeps two workers out of
// each other's memory pages; claimed one by one by all (Worker::claim), the same tasks read at half the rate on a Zen 5 (docs/BENCHMARKS.md).
// And a worker that lost its core for a while is helped, which a fixed share would not do.
//
// Thread rule: take() from any thread, next_launch() when no thread takes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/check.h"

namespace plumb::device {

class TaskRuns {
 public:
  static constexpr std::int64_t kNone = -1;
  static constexpr std::int64_t kMaxTasks = (std::int64_t{1} << 20) - 1;

  explicit TaskRuns(int workers) : count_(workers), runs_(std::make_unique<Run[]>(static_cast<std::size_t>(workers))) {
    PLUMB_CHECK(workers >= 1);
  }

  // Forgets what was taken.
  void next_launch() {
    if (++epoch_ <= kLastEpoch) return;
    epoch_ = 1;
    for (int i = 0; i < count_; ++i) runs_[static_cast<std::size_t>(i)].left.store(0, std::memory_order_relaxed);
  }

  // The next task of [0, tasks) for `worker`, each handed out once in a launch, or kNone. REQUIRES: tasks <= kMaxTasks, the same for all calls
  // of a launch.
  std::int64_t take(int worker, std::int64_t tasks) {
    if (const std::int64_t task = take_from<Side::front>(worker, tasks); task != kNone) return task;
    for (int k = 1; k < count_; ++k) {
      const int other = worker + k < count_ ? worker + k : worker + k - count_;
      if (const std::int64_t task = take_from<Side::back>(other, tasks); task != kNone) return task;
    }
    return kNone;
  }

 private:
  enum class Side : std::uint8_t { front, back };

  // What is left of a run, and of which launch: epoch, then begin and end of 20 bits. A run of another launch is a whole one, whoever sees
  // it first, so nothing is written for launches that take nothing.
  static constexpr std::uint64_t kLastEpoch = (std::uint64_t{1} << 24) - 1;
  static std::uint64_t packed(std::uint64_t epoch, std::int64_t begin, std::int64_t end) {
    return epoch << 40 | static_cast<std::uint64_t>(begin) << 20 | static_cast<std::uint64_t>(end);
  }
  struct alignas(128) Run {
    std::atomic<std::uint64_t> left{0};
  };

  template <Side S>
  std::int64_t take_from(int worker, std::int64_t tasks) {
    std::atomic<std::uint64_t>& left = runs_[static_cast<std::size_t>(worker)].left;
    std::uint64_t seen = left.load(std::memory_order_relaxed);
    for (;;) {
      std::int64_t begin = tasks * worker / count_;
      std::int64_t end = tasks * (worker + 1) / count_;
      if (seen >> 40 == epoch_) {
        begin = static_cast<std::int64_t>(seen >> 20) & kMaxTasks;
        end = static_cast<std::int64_t>(seen) & kMaxTasks;
      }
      if (begin == end) return kNone;
      const std::int64_t task = S == Side::front ? begin : end - 1;
      const std::uint64_t rest = S == Side::front ? packed(epoch_, begin + 1, end) : packed(epoch_, begin, end - 1);
      // What tasks write is published by the barrier at the end of the launch.
      if (left.compare_exchange_weak(seen, rest, std::memory_order_relaxed)) return task;
    }
  }

  int count_;
  std::uint64_t epoch_ = 1;
  std::unique_ptr<Run[]> runs_;
};

}  // namespace plumb::device
