// The seam to hardware: record work into a command buffer, submit it to a queue, wait for the completion.
//
// The API is drawn so that CPU threads, CUDA streams and graphs, and Vulkan queues can all stand behind it: explicit queues,
// recorded buffers, reserved memory, completions with a status. Submissions of one queue run in order; a launch sees all
// writes of the launches before it. Nothing here is specific to one vendor.
//
// The only way to learn that work is done is Completion::wait() -> Status. There is no other wait. A failed buffer's outputs
// must not be read; the executor enforces it by constructing a step's output type only from a successful wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "device/bank.h"
#include "device/fault.h"
#include "device/launch.h"

namespace plumb::device {

// Objects alive now. Each returns to its starting value after every step; a test runs 10,000 steps and looks.
struct LiveCounts {
  std::uint64_t encoders = 0;   // begun, neither submitted nor abandoned
  std::uint64_t in_flight = 0;  // submitted, not completed
  std::uint64_t banks = 0;
  std::uint64_t bank_bytes = 0;
  bool operator==(const LiveCounts&) const = default;
};

// Cumulative counters since the queue was opened.
struct QueueCounters {
  std::uint64_t submissions = 0;
  std::uint64_t launches = 0;
  std::uint64_t host_waits = 0;  // waits that found the buffer unfinished and blocked the host
  Cost declared;
};

struct DeviceInfo {
  Backend backend = Backend::cpu;
  std::string name;   // "AMD EPYC 7B13"
  std::string isa;    // CPU: the widest instruction set found, e.g. "avx2"
  int threads = 1;    // CPU: worker threads of the queue
  std::uint64_t memory_bytes = 0;
};

// One recording. Abandoned when destroyed without being submitted.
// Thread rule: one thread records; different buffers may be recorded on different threads.
class Recorder {
 public:
  virtual ~Recorder() = default;
  // ErrorCode::invalid_argument when the kernel belongs to another backend or the arguments are too large.
  virtual Status launch(const Launch& launch) = 0;
  // The host bytes are copied while recording; the device sees them when it reaches this point of the buffer.
  virtual Status upload(Buffer destination, std::uint64_t offset, std::span<const std::byte> bytes) = 0;
  virtual Status copy(Buffer destination, std::uint64_t destination_offset, Buffer source, std::uint64_t source_offset,
                      std::uint64_t bytes) = 0;
  virtual Status fill(Buffer destination, std::uint64_t offset, std::uint64_t bytes, std::byte value) = 0;
};

class [[nodiscard]] CommandBuffer {
 public:
  explicit CommandBuffer(std::unique_ptr<Recorder> recorder) : recorder_(std::move(recorder)) {}
  Recorder* operator->() const { return recorder_.get(); }
  Recorder& operator*() const { return *recorder_; }
  std::unique_ptr<Recorder> release() && { return std::move(recorder_); }

 private:
  std::unique_ptr<Recorder> recorder_;
};

// A submission's fate, shared with the queue.
class CompletionState {
 public:
  virtual ~CompletionState() = default;
  virtual Status wait() = 0;
  virtual bool done() const = 0;
  virtual const FaultWord& fault() const = 0;
  virtual std::span<const LaunchRecord> records() const = 0;
};

class [[nodiscard]] Completion {
 public:
  explicit Completion(std::shared_ptr<CompletionState> state) : state_(std::move(state)) {}
  // Blocks until the buffer has run or failed. Errors: device_fault (names op, layer, variant, and the fault), device_lost,
  // deadline_exceeded. Repeated calls return the same status. Thread rule: any thread.
  [[nodiscard]] Status wait() const { return state_->wait(); }
  // True when wait() would not block.
  [[nodiscard]] bool done() const { return state_->done(); }
  // REQUIRES: wait() returned. What the launches clamped and counted.
  const FaultWord& fault() const { return state_->fault(); }
  // REQUIRES: wait() returned; empty unless the buffer was begun with timing.
  std::span<const LaunchRecord> records() const { return state_->records(); }

 private:
  std::shared_ptr<CompletionState> state_;
};

struct BeginOptions {
  std::string_view label = "step";
  bool timing = false;      // fill Completion::records()
  bool one_by_one = false;  // --diag: run launch by launch with a status and finiteness check after each
};

class Queue {
 public:
  virtual ~Queue() = default;
  Queue() = default;
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  virtual const DeviceInfo& info() const = 0;
  virtual bool checked() const = 0;

  // Errors: out_of_memory, allocation_while_encoding, device_lost. The bank must not outlive the queue.
  virtual Result<std::unique_ptr<Bank>> reserve(const BankPlan& plan) = 0;
  virtual Result<CommandBuffer> begin(const BeginOptions& options) = 0;
  // Never fails by itself: what goes wrong is the completion's status.
  virtual Completion submit(CommandBuffer&& buffer) = 0;

  virtual LiveCounts live() const = 0;
  virtual QueueCounters counters() const = 0;
  virtual FaultInjector& faults() = 0;
};

}  // namespace plumb::device
