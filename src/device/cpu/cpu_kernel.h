// How a CPU kernel is called: by every worker of the queue at once, each with its Worker.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "device/cpu/task_runs.h"
#include "device/fault.h"

namespace plumb::device {

// Where the workers of a buffer count what they clamp. `seen` holds what earlier launches counted and is constant while a
// launch runs; `pending` gathers the running launch's and joins `seen` at its end. So a kernel that reads fault() sees the
// same thing on every thread, whatever the order in which they run.
struct FaultSink {
  FaultWord seen;
  FaultWord pending;  // under `lock`
  std::atomic_flag lock;

  // Between launches, by one thread.
  void fold();
};

// What one worker thread knows while it runs its part of a launch. All workers of the queue call the kernel, or one calls a small one as
// if it were the only worker; a kernel splits its *outputs* among them and never a reduction, so results do not depend on the number of threads.
class Worker {
 public:
  // `launch`: the index of the launch in its buffer, for reports.
  Worker(int index, int count, std::span<std::byte> scratch, std::atomic<std::int64_t>* ticket, TaskRuns* runs, FaultSink* faults,
         int launch)
      : index_(index), count_(count), scratch_(scratch), ticket_(ticket), runs_(runs), faults_(faults), launch_(launch) {}

  int index() const { return index_; }
  int count() const { return count_; }

  // This worker's contiguous share of [0, n), in multiples of `grain` except at the end.
  std::pair<std::int64_t, std::int64_t> share(std::int64_t n, std::int64_t grain = 1) const {
    const std::int64_t units = (n + grain - 1) / grain;
    const std::int64_t lo = units * index_ / count_ * grain;
    const std::int64_t hi = units * (index_ + 1) / count_ * grain;
    return {lo < n ? lo : n, hi < n ? hi : n};
  }

  // The next unclaimed task of this launch: 0, 1, 2, ... over all workers. For work of uneven size.
  std::int64_t claim() { return ticket_->fetch_add(1, std::memory_order_relaxed) & (kFinished - 1); }

  // The next task of [0, tasks) by runs, or TaskRuns::kNone: for tasks that each read memory of their own, in the order in which it lies.
  // A launch uses either claim() or take(). REQUIRES: as TaskRuns::take.
  std::int64_t take(std::int64_t tasks) { return runs_->take(index_, tasks); }

  // For launches whose later tasks need what earlier ones wrote. Each claimed task of the first `tasks` calls finished() when it is
  // done; await() returns when all of them have, and then sees what they wrote. REQUIRES: await() only after claim() has
  // returned `tasks` or more, so that every task waited for is being worked on by somebody.
  void finished() { ticket_->fetch_add(kFinished, std::memory_order_release); }
  void await(std::int64_t tasks) const;

  // Memory private to this worker, kept from launch to launch, contents undefined; 64-byte aligned.
  std::span<std::byte> scratch() const { return scratch_; }
  template <class T>
  T* scratch_as() const { return reinterpret_cast<T*>(scratch_.data()); }

  // An index that came from outside or from another kernel: returned when in [0, limit), else clamped to 0 and counted.
  // A counted index fails the step. `row`: the row of the launch that it belongs to, or -1. REQUIRES: limit > 0.
  std::int64_t index_in(std::int64_t value, std::int64_t limit, std::int64_t row = -1) {
    if (value >= 0 && value < limit) return value;
    report(value, limit, FaultKind::bad_index, row);
    return 0;
  }

  // Counts a bad thing that is not an index: the row of a non-finite result, a reservation that is too short.
  void report(std::int64_t value, std::int64_t limit, FaultKind kind = FaultKind::non_finite, std::int64_t row = -1);

  // What earlier launches of the buffer have counted. The sampler reads it.
  const FaultWord& fault() const { return faults_->seen; }

 private:
  static constexpr std::int64_t kFinished = std::int64_t{1} << 32;  // claims are counted below it, finished tasks above

  int index_;
  int count_;
  std::span<std::byte> scratch_;
  std::atomic<std::int64_t>* ticket_;
  TaskRuns* runs_;
  FaultSink* faults_;
  int launch_;
};

inline constexpr std::size_t kWorkerScratchBytes = std::size_t{1} << 20;  // a dequantised weight panel and a row of scores

using CpuKernelFn = void (*)(const void* args, Worker& worker);

// Adapts a typed kernel `void f(const Args&, Worker&)` to a table entry.
template <class Args, void (*F)(const Args&, Worker&)>
void cpu_entry(const void* args, Worker& worker) {
  F(*static_cast<const Args*>(args), worker);
}

}  // namespace plumb::device
