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
  std::string isa;    // CPU: the instructions it has, e.g. "avx2 avx512" (cpu_features.h)
  int threads = 1;    // CPU: worker threads of the queue
  std::uint64_t memory_bytes = 0;
};

// One recording. Abandoned when its CommandBuffer is destroyed without being submitted. A call that fails also fails the
// buffer: submitted all the same, it runs nothing and completes with the first such error.
// Thread rule: one thread records; different buffers may be recorded on different threads.
class Recorder {
 public:
  virtual ~Recorder() = default;
  // ErrorCode::invalid_argument when the kernel belongs to another backend or the arguments are too large; likewise from
  // the calls below when a range does not lie inside its buffer.
  virtual Status launch(const Launch& launch) = 0;
  // The host bytes are copied while recording; the device sees them when it reaches this point of the buffer.
  virtual Status upload(Buffer destination, std::uint64_t offset, std::span<const std::byte> bytes) = 0;
  virtual Status copy(Buffer destination, std::uint64_t destination_offset, Buffer source, std::uint64_t source_offset,
                      std::uint64_t bytes) = 0;
  virtual Status fill(Buffer destination, std::uint64_t offset, std::uint64_t bytes, std::byte value) = 0;
  // True when launches should carry their operands: the buffer was begun one_by_one, or an armed fault needs an output.
  virtual bool wants_operands() const = 0;

  struct Abandon {
    void operator()(Recorder* recorder) const { recorder->abandon(); }
  };

 private:
  // The recording is dropped without having been submitted. Backends keep the storage for the next begin(): recording a
  // step allocates nothing once the first few have run.
  virtual void abandon() = 0;
};
using RecorderPtr = std::unique_ptr<Recorder, Recorder::Abandon>;

class [[nodiscard]] CommandBuffer {
 public:
  explicit CommandBuffer(RecorderPtr recorder) : recorder_(std::move(recorder)) {}
  Recorder* operator->() const { return recorder_.get(); }
  Recorder& operator*() const { return *recorder_; }
  RecorderPtr release() && { return std::move(recorder_); }

 private:
  RecorderPtr recorder_;
};

// A submission's fate, shared by the queue and the completions that look at it. Counted by its owners and, like the
// recording, kept by the queue for the next submission when the last one lets go.
class CompletionState {
 public:
  virtual ~CompletionState() = default;
  virtual Status wait() = 0;
  virtual bool done() const = 0;
  virtual const FaultWord& fault() const = 0;
  virtual std::span<const LaunchRecord> records() const = 0;

 private:
  friend class Completion;
  virtual void retain() = 0;
  virtual void release() = 0;
};

// A handle; copies look at the same submission. May outlive the queue. Default-constructed or moved-from: no submission.
class [[nodiscard]] Completion {
 public:
  Completion() = default;
  // Takes over one count of `state`.
  explicit Completion(CompletionState* state) : state_(state) {}
  Completion(const Completion& other) : state_(other.state_) {
    if (state_ != nullptr) state_->retain();
  }
  Completion(Completion&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  Completion& operator=(Completion other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~Completion() {
    if (state_ != nullptr) state_->release();
  }
  explicit operator bool() const { return state_ != nullptr; }

  // REQUIRES for all below: a submission.
  // Blocks until the buffer has run or failed. Errors: device_fault (names op, layer, variant, and the fault), device_lost,
  // deadline_exceeded, cancelled (the queue was shut down first), invalid_argument (the recording had failed), and the
  // error of the buffer it was declared to follow. Repeated calls return the same status. Thread rule: any thread.
  [[nodiscard]] Status wait() const { return state_->wait(); }
  // True when wait() would not block.
  [[nodiscard]] bool done() const { return state_->done(); }
  // REQUIRES: wait() returned. What the launches clamped and counted.
  const FaultWord& fault() const { return state_->fault(); }
  // REQUIRES: wait() returned; empty unless the buffer was begun with timing.
  std::span<const LaunchRecord> records() const { return state_->records(); }

  // For backends.
  CompletionState* state() const { return state_; }

 private:
  CompletionState* state_ = nullptr;
};

struct BeginOptions {
  std::string_view label = "step";
  bool timing = false;      // fill Completion::records()
  bool one_by_one = false;  // --diag: status, finiteness of f32 outputs and (checked mode) guards after each launch
  // Chaining. When the buffer of `after` has failed or was itself skipped, this one runs nothing and completes with the same
  // first error and the same fault word. REQUIRES: empty, or a completion of the same queue.
  Completion after = {};
};

// Destroying a queue ends what it still runs at the next launch boundary; buffers that had not completed are cancelled.
// Memory that launches refer to must live until then.
class Queue {
 public:
  virtual ~Queue() = default;
  Queue() = default;
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  virtual const DeviceInfo& info() const = 0;
  virtual bool checked() const = 0;

  // Errors: out_of_memory (carries the arithmetic), allocation_while_encoding, device_lost. The bank must not outlive the
  // queue. Contents are undefined (checked mode: poison). A bank dropped while buffers are in flight keeps its memory until
  // they are done.
  virtual Result<std::unique_ptr<Bank>> reserve(const BankPlan& plan) = 0;
  // Errors: out_of_memory (no command buffer to be had), device_lost, invalid_argument (`after` of another queue).
  virtual Result<CommandBuffer> begin(const BeginOptions& options) = 0;
  // Never fails by itself: what goes wrong is the completion's status.
  virtual Completion submit(CommandBuffer&& buffer) = 0;

  virtual LiveCounts live() const = 0;
  virtual QueueCounters counters() const = 0;
  virtual FaultInjector& faults() = 0;
};

}  // namespace plumb::device
