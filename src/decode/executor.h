// Executor: runs steps of one lowered model on one queue.
//
// It owns the device memory of the model (constants, KV pages, activations, results), binds the Program to it once, and
// encodes a StepPlan into one command buffer: batch upload, page-table writes, forward, sampling, copy of the results into a
// ring. Nothing is planned or allocated inside a step.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "decode/executor_options.h"
#include "decode/memory_plan.h"
#include "decode/step.h"
#include "device/queue.h"
#include "kernels/geometry/attention_plan.h"
#include "kernels/table.h"
#include "kv/layout.h"
#include "model/decoder.h"

namespace plumb::decode {

class Executor;

// A step in flight. Waiting twice returns the same.
class [[nodiscard]] Submission {
 public:
  Submission() = default;  // of no step
  explicit operator bool() const { return executor_ != nullptr; }

  // Blocks until the step has run or failed.
  Result<StepOutput> wait() const;
  bool done() const { return completion_.done(); }
  const device::Completion& completion() const { return completion_; }
  // The row of the step's batch in which the fault was seen that failed it, or -1 where it was seen in none in particular.
  // REQUIRES: wait() failed; `plan` is the step's.
  std::int32_t faulted_row(const StepPlan& plan) const;
  // Bytes of tap `i`, REQUIRES wait() succeeded: [rows or logit rows][row_bytes].
  std::span<const std::byte> tap(std::size_t i) const;

 private:
  friend class Executor;
  Submission(device::Completion completion, const Executor* executor, std::int32_t ring, std::int32_t rows,
             std::int32_t logit_rows, bool logits)
      : completion_(std::move(completion)), executor_(executor), ring_(ring), rows_(rows), logit_rows_(logit_rows),
        logits_(logits) {}
  device::Completion completion_;
  device::Completion forward_;  // of a step whose sample half was submitted apart
  const Executor* executor_ = nullptr;
  std::int32_t ring_ = 0;
  std::int32_t rows_ = 0;
  std::int32_t logit_rows_ = 0;
  bool logits_ = false;
};

class Executor {
 public:
  // Selects a kernel for every phase, reserves memory, binds. `queue` must outlive the executor, and so must the checkpoint
  // whose bytes the model maps. Errors: unsupported (no kernel, names op and format), out_of_memory.
  static Result<std::unique_ptr<Executor>> open(device::Queue& queue, model::LoweredModel model, const kv::KvLayout& layout,
                                                const ExecutorOptions& options);

  // Encodes and submits a step. `after`: a step still in flight that this one is chained to; when that fails, this runs nothing
  // and fails with the same first error. A ticket whose rules come later has only its forward half submitted. At most `depth`
  // steps may be in flight. Errors: invalid_argument (more rows than the program was lowered for), and whatever beginning a
  // command buffer returns.
  Result<Submission> submit(const StepTicket& ticket, const Submission& after = {});
  // Submits the sample half of a ticket whose rules have been supplied. REQUIRES: `forward` is what submit() returned for it.
  Result<Submission> submit_sample(const StepTicket& ticket, const Submission& forward);

  // Whole pages of one layer class, all layers, K then V: for saving and restoring sessions. Only while nothing is in flight.
  // `bytes`: kv_page_bytes(layer_class). Errors: of the device.
  std::uint64_t kv_page_bytes(std::int32_t layer_class) const;
  Status read_page(std::int32_t layer_class, std::int32_t page, std::span<std::byte> bytes);
  Status write_page(std::int32_t layer_class, std::int32_t page, std::span<const std::byte> bytes);
  // Likewise the recurrent state of one slot, all layers; state_bytes() is 0 for models without.
  std::uint64_t state_bytes() const;
  Status read_state(std::int32_t slot, std::span<std::byte> bytes);
  Status write_state(std::int32_t slot, std::span<const std::byte> bytes);

  const kernels::Program& program() const { return model_.program; }
  // The kernel of each phase, for the route witness.
  std::span<const kernels::KernelEntry* const> route() const { return route_; }
  // How many rows each phase has been encoded for since open, and in how many steps: what the route witness multiplies out.
  struct PhaseUse {
    std::uint64_t rows = 0;
    std::uint64_t steps = 0;
  };
  PhaseUse use(std::size_t phase) const;  // REQUIRES: phase < program().phases.size()
  // The same by kernel. Attention chooses among several, launch by launch; other phases have one.
  struct KernelUse {
    const kernels::KernelEntry* kernel = nullptr;  // null: no such variant
    PhaseUse use;
    std::uint64_t refused = 0;  // launches that were serial because no row was measured for their geometry
    std::int32_t slices = 0;    // most tasks that a row's keys were cut in
  };
  static constexpr std::size_t kVariants = std::size(kernels::kAttentionVariants);
  const std::array<KernelUse, kVariants>& uses(std::size_t phase) const { return bound_[phase].uses; }
  const MemoryUse& memory() const { return memory_; }
  device::Queue& queue() const { return queue_; }
  std::int32_t vocab() const { return vocab_; }
  // Bytes and flops a decode step of one row declares at `position`, from the phases' own costs; without `logits`, those of a
  // row of prompt, from which nothing is drawn.
  device::Cost declared_cost(std::int32_t position, bool logits = true) const;
  // Checked mode: guard bands of every bank.
  Status verify() const;

 private:
  friend class Submission;
  struct Bound {
    kernels::Phase phase;
    const kernels::KernelEntry* kernel = nullptr;
    std::int32_t rows = -1;  // the count `phase` and `cost` stand for
    device::Cost cost;       // but for what attention's positions add,
    device::Cost span_cost;  // which is this in the present step
    // By variant where the phase is attention (`attention`), else only the first.
    std::array<KernelUse, kVariants> uses;
    kernels::AttentionArgs* attention = nullptr;  // the arguments in `phase`
  };
  explicit Executor(device::Queue& queue) : queue_(queue) {}
  Status reserve(const kv::KvLayout& layout, const ExecutorOptions& options);
  Status choose_kernels(kernels::Isa isa);
  Status run_load_phases(std::span<std::byte* const> bases, kernels::Isa isa);
  Status encode_forward(device::Recorder& recorder, const StepPlan& plan, std::int32_t ring);
  Status encode_sample(device::Recorder& recorder, const StepPlan& plan, std::int32_t ring);
  Status encode_phases(device::Recorder& recorder, const StepPlan& plan, std::int32_t ring, std::size_t first, std::size_t last);
  Status upload_state(device::Recorder& recorder, const StepPlan& plan);
  Status copy_states(device::Recorder& recorder, const std::vector<StateCopy>& copies);
  Status upload_batch(device::Recorder& recorder, const StepPlan& plan);
  Status encode_phase(device::Recorder& recorder, Bound& bound, const StepPlan& plan);
  // Chooses the kernel of an attention launch and sets its parts.
  std::size_t choose_attention(Bound& bound, const StepPlan& plan);
  Status encode_results(device::Recorder& recorder, const StepPlan& plan, std::int32_t ring);
  device::Buffer slot_buffer(const char* name) const;

  device::Queue& queue_;
  model::LoweredModel model_;
  ExecutorOptions options_;
  std::vector<Bound> bound_;
  std::vector<const kernels::KernelEntry*> route_;
  MemoryUse memory_;
  std::int32_t vocab_ = 0;

  std::unique_ptr<device::Bank> constants_bank_, kv_bank_, step_bank_, results_bank_;
  std::vector<device::Buffer> slots_;  // by SlotId; mapped weights have no id
  std::vector<device::Buffer> tables_;  // by layer class
  std::vector<std::int32_t> table_pages_;
  struct KvStorage {
    device::Buffer k, v;
    std::int32_t layer_class;
    kernels::KvView view;  // where a page's blocks lie
    std::uint64_t block_bytes() const { return static_cast<std::uint64_t>(kernels::kv_block_bytes(view)); }
    std::uint64_t block(std::int32_t page, int head) const { return static_cast<std::uint64_t>(kernels::kv_block(view, page, head)); }
  };
  std::vector<KvStorage> kv_storage_;
  device::Buffer tokens_, sources_, positions_, sequences_, logit_index_, params_, relay_of_;
  std::vector<device::Buffer> write_sequences_;
  device::Buffer sampled_, digests_, logits_;
  device::Buffer advance_, lengths_, edits_, edit_offsets_, masks_, mask_of_;
  std::size_t sample_phase_ = 0;  // first phase of the sample half
  device::Buffer state_slots_;    // recurrent models: the slot of each row of the page tables
  struct StateStorage {
    device::Buffer buffer;
    std::uint64_t slot_bytes;
  };
  std::vector<StateStorage> state_storage_;
  device::Buffer transfer_;  // one page or state on its way to or from the host
  std::vector<device::Buffer> ring_tokens_, ring_digests_, ring_logits_, ring_lengths_;
  std::vector<std::vector<device::Buffer>> ring_taps_;  // [ring][tap]
  std::uint64_t next_ = 0;
  std::vector<std::int32_t> staging_;  // reused column of the batch, so that encoding allocates nothing
  std::vector<kernels::SampleParams> staging_params_;
  std::vector<device::Operand> staging_operands_;
};

}  // namespace plumb::decode
