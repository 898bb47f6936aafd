// One submission of the CPU queue, from begin() to the last Completion that looks at it: the recorded job list, the storage
// behind it, and its fate. Kept in the queue's pool between uses, so its vectors have the size that a step needs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/cpu/cpu_kernel.h"
#include "device/cpu/event_word.h"
#include "device/queue.h"

namespace plumb::device {

class CpuCore;

// One entry of the job list.
struct Command {
  enum class Kind : std::uint8_t { launch, upload, copy, fill };
  Kind kind = Kind::launch;
  bool solo = false;           // done by the first worker alone
  std::byte value{};           // fill
  std::int32_t launch = -1;    // index among the launches of the buffer
  CpuKernelFn entry = nullptr; // launch
  std::uint64_t data = 0;      // launch, upload: offset of the arguments or bytes in the buffer's data
  std::byte* destination = nullptr;
  const std::byte* source = nullptr;  // copy
  std::uint64_t bytes = 0;
};

// Who a launch is and what it touches; read only when something is reported.
struct LaunchInfo {
  const Kernel* kernel = nullptr;
  LaunchTag tag;
  std::uint32_t first_operand = 0;
  std::uint32_t operands = 0;
};

// What an armed injector has decided for a buffer, at submit.
struct InjectedFaults {
  std::int64_t fail_launch = -1;  // this launch fails instead of running
  bool lost = false;              // ... and the device is gone
  std::int64_t bad_index_launch = -1;
  std::int32_t bad_index_row = -1;
  std::int64_t non_finite_launch = -1;
  bool refused = false;
  bool hang = false;
};

class CpuBuffer final : public Recorder, public CompletionState {
 public:
  Status launch(const Launch& launch) override;
  Status upload(Buffer destination, std::uint64_t offset, std::span<const std::byte> bytes) override;
  Status copy(Buffer destination, std::uint64_t destination_offset, Buffer source, std::uint64_t source_offset,
              std::uint64_t bytes) override;
  Status fill(Buffer destination, std::uint64_t offset, std::uint64_t bytes, std::byte value) override;
  bool wants_operands() const override { return wants_operands_; }

  Status wait() override;
  bool done() const override;
  const FaultWord& fault() const override { return fate_fault_; }
  std::span<const LaunchRecord> records() const override;

 private:
  friend class CpuCore;

  void abandon() override;
  void retain() override { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() override;

  // Makes a pooled buffer ready for a recording. REQUIRES: nobody else knows the buffer.
  void open(std::shared_ptr<CpuCore> core, const BeginOptions& options, bool wants_operands);
  // Fixes the outcome and wakes those who wait; settled on return. False when the outcome was fixed already. Thread rule:
  // any thread, the first wins.
  // `complete`: the workers are through with the buffer, so its counts and records can be read.
  bool settle(Status status, bool complete);
  bool settled() const { return settled_.load() != 0; }

  // The launch's arguments or the upload's bytes.
  const std::byte* data(const Command& command) const { return data_.data() + command.data; }
  // Whether the first worker goes from command `index` to the next by itself. Not past a launch that is to be looked at when it ends.
  bool chained(std::size_t index) const;
  std::uint64_t append(const void* bytes, std::size_t size);
  Status reject(Error error);

  // Recording.
  std::shared_ptr<CpuCore> core_;  // set while outside of the pool
  std::string label_;
  bool timing_ = false;
  bool one_by_one_ = false;
  bool wants_operands_ = false;
  Completion after_;
  std::vector<Command> commands_;
  std::vector<LaunchInfo> launches_;
  std::vector<std::byte> data_;
  std::vector<Operand> operands_;
  std::vector<LaunchRecord> records_;
  Cost declared_;
  Status recording_;  // the first error of a recording call

  // Running.
  InjectedFaults injected_;
  FaultSink faults_;

  // Fate: written once, by whoever claims it, and read-only after settled_.
  std::atomic<std::uint32_t> references_{0};
  std::atomic<bool> claimed_{false};
  EventWord settled_;
  Status status_;
  FaultWord fate_fault_;
  bool skipped_ = false;
  bool has_records_ = false;

  CpuBuffer* next_ = nullptr;  // in the queue's list of pending buffers, or in its pool
};

}  // namespace plumb::device
