// The shared inside of a CPU queue: workers, pending buffers, the pool of idle ones, banks and counters.
//
// The queue, its banks, recordings and completions all hold the core, so any of them may be the last to go. The workers
// belong to the queue alone and end with it.
//
// How a buffer runs: every worker takes the head of the pending list, and they meet at a barrier before the first command
// and after each command that has to be seen by the next. The last to arrive at a barrier settles what just ended and
// decides what comes next while the others still wait; that is the only place where a running buffer's state changes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "device/cpu/barrier.h"
#include "device/cpu/cpu_bank.h"
#include "device/cpu/cpu_buffer.h"
#include "device/cpu/cpu_queue.h"

namespace plumb::device {

class CpuCore : public std::enable_shared_from_this<CpuCore> {
 public:
  // `processors`: what the process may use, which decides how eagerly the workers wait.
  CpuCore(const CpuQueueOptions& options, int processors, DeviceInfo info);
  ~CpuCore();
  CpuCore(const CpuCore&) = delete;
  CpuCore& operator=(const CpuCore&) = delete;

  // Starts the workers (none for an inline queue). Errors: internal, out_of_memory (scratch).
  Status start();
  // Cancels what has not completed and joins the workers.
  void shut_down();

  const DeviceInfo& info() const { return info_; }
  bool checked() const { return options_.checked; }
  FaultInjector& faults() { return injector_; }
  LiveCounts live() const;
  QueueCounters counters() const;

  Result<std::unique_ptr<Bank>> reserve(const BankPlan& plan);
  Result<CommandBuffer> begin(const BeginOptions& options);
  Completion submit(CommandBuffer&& buffer);
  bool release_next();

  // For CpuBuffer.
  void wait_for(CpuBuffer& buffer);
  bool never_blocks() const { return options_.inline_execution && !options_.hold; }
  void abandon(CpuBuffer& buffer);
  void recycle(CpuBuffer& buffer);

  // For CpuBank: it goes away.
  void drop(CpuBank& bank);

 private:
  struct Context {  // of one worker
    int index = 0;
    std::span<std::byte> scratch;
    SpinMemory between_launches;
    SpinMemory between_buffers;
  };

  void work(int index);
  Context context(int index) const;
  // The head of the pending list, waiting for one; nullptr when the queue is shut down and the list empty.
  CpuBuffer* next(Context& context);
  // Runs this worker's part of the buffer. On return the buffer may be gone.
  void execute(CpuBuffer& buffer, Context& context);
  void run_command(const CpuBuffer& buffer, const Command& command, const Context& context);

  // At a barrier, by the last worker.
  void before_first(CpuBuffer& buffer);
  void after_command(CpuBuffer& buffer, std::size_t index);
  // When no launch runs, by one thread: nothing of the next one is taken, and what the last one counted is seen.
  void between_launches(CpuBuffer& buffer);
  // True when the buffer must not go on with command `index`; it has then been completed.
  bool stopped(CpuBuffer& buffer, std::size_t index);
  void end(CpuBuffer& buffer);
  // Takes the buffer off the pending list and settles it. Nobody touches it afterwards.
  void complete(CpuBuffer& buffer, Status status);
  void hang();

  CpuBuffer* take_idle();
  void enqueue(CpuBuffer& buffer);
  void lose(std::string why);
  Error lost_error() const;  // REQUIRES: lost
  Error overdue_error(const CpuBuffer& buffer) const;
  void plan_faults(CpuBuffer& buffer);
  void inject_after(CpuBuffer& buffer, std::int32_t launch);
  // --diag: the first non-finite f32 output of the launch, if any.
  Status check_outputs(const CpuBuffer& buffer, std::int32_t launch);
  Status verify_banks();
  Error launch_error(const CpuBuffer& buffer, std::int64_t launch, std::string message, std::string value) const;

  const CpuQueueOptions options_;
  DeviceInfo info_;
  FaultInjector injector_;
  Arena scratch_;
  std::vector<std::thread> workers_;
  std::uint32_t idle_pause_us_;
  Barrier barrier_;
  EventWord bell_;   // rings at every submission and at shutdown
  EventWord alarm_;  // rings when the device is lost or shut down: ends a hang
  std::atomic<bool> closing_{false};
  std::atomic<bool> lost_{false};

  // Made ready for a launch by the last worker at the barrier before it; tasks are then taken from them by all.
  alignas(128) std::atomic<std::int64_t> ticket_{0};
  TaskRuns runs_;
  bool stop_ = false;
  std::uint64_t last_stamp_ns_ = 0;
  std::uint64_t inline_deadline_ns_ = 0;  // inline queues; 0: none

  std::mutex run_mutex_;  // inline queues: one thread runs at a time

  mutable std::mutex mutex_;  // all below
  std::string lost_why_;
  CpuBuffer* head_ = nullptr;
  CpuBuffer* tail_ = nullptr;
  CpuBuffer* idle_ = nullptr;
  std::vector<std::unique_ptr<CpuBuffer>> buffers_;  // every buffer ever made
  std::vector<CpuBank*> banks_;
  std::vector<Arena> orphans_;  // of banks dropped while buffers were in flight
  std::uint32_t next_id_ = 1;
  LiveCounts live_;
  QueueCounters counters_;
};

}  // namespace plumb::device
