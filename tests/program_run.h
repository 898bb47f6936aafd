// A lowered model on plain host memory, run step by step: by kernels on a queue, or by the double-precision references of its
// ops. No executor and no scheduler: tests say which rows run and which slot holds a sequence's recurrent state.
//
// All memory starts as NaNs, and tables as "none", so what is read before it was written shows.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/cpu/cpu_queue.h"
#include "format/checkpoint.h"
#include "kernels/bind.h"
#include "kernels/table.h"
#include "kv/layout.h"
#include "model/arch/table.h"
#include "model/decoder.h"

namespace plumb::test {

class ProgramRun {
 public:
  struct Options {
    std::int32_t rows = 64;       // most of one step
    std::int32_t context = 128;   // positions of a sequence
    std::int32_t sequences = 1;
    std::int32_t state_slots = 1;
    int threads = 2;              // of the kernels; 0: the references
    kernels::Isa isa = kernels::best_isa();
  };
  struct Row {
    std::int32_t token;
    std::int32_t position;
    std::int32_t sequence;
  };

  static Result<std::unique_ptr<ProgramRun>> open(const std::string& model, const Options& options) {
    PLUMB_ASSIGN(format::Checkpoint checkpoint, format::Checkpoint::open(model));
    auto run = std::unique_ptr<ProgramRun>(new ProgramRun(std::move(checkpoint), options));
    PLUMB_TRY(run->prepare());
    return run;
  }

  // Runs the rows as one step. Logits of every row: [rows][vocab].
  Result<std::vector<float>> step(const std::vector<Row>& rows) {
    const auto count = static_cast<std::int32_t>(rows.size());
    for (std::int32_t r = 0; r < count; ++r) {
      const Row& row = rows[static_cast<std::size_t>(r)];
      cells(kernels::kSlotTokens)[r] = row.token;
      cells(kernels::kSlotSources)[r] = -1;
      cells(kernels::kSlotPositions)[r] = row.position;
      cells(kernels::kSlotSequences)[r] = row.sequence;
      for (std::size_t c = 0; c < classes_; ++c) cells(kernels::kSlotWriteSequences + std::to_string(c))[r] = row.sequence;
      cells(kernels::kSlotAdvance)[r] = row.sequence;
      cells(kernels::kSlotLogitIndex)[r] = r;
      cells(kernels::kSlotRelayOf)[r] = -1;
      cells(kernels::kSlotMaskOf)[r] = -1;
      reinterpret_cast<kernels::SampleParams*>(cells(kernels::kSlotSampleParams))[r] = {};
    }
    std::fill_n(cells(kernels::kSlotEditOffsets), count + 1, 0);
    std::vector<kernels::Phase> phases = bound_;
    for (kernels::Phase& phase : phases) phase.op->set_rows(phase.args.data(), count);
    if (queue_ == nullptr) {
      for (const kernels::Phase& phase : phases) phase.op->reference(phase.args.data());
    } else {
      PLUMB_ASSIGN(device::CommandBuffer buffer, queue_->begin({}));
      for (std::size_t i = 0; i < phases.size(); ++i) {
        PLUMB_TRY(buffer->launch({.kernel = &kernels_[i]->kernel,
                                  .args = phases[i].args.data(),
                                  .args_bytes = phases[i].op->args_bytes,
                                  .tag = {.op = phases[i].op->name, .layer = phases[i].layer}}));
      }
      PLUMB_TRY(queue_->submit(std::move(buffer)).wait());
    }
    const auto* logits = reinterpret_cast<const float*>(bytes(kernels::kSlotLogits).data());
    return std::vector<float>(logits, logits + std::int64_t{count} * spec_.vocab);
  }

  // What a scheduler does with recurrent states.
  void give_slot(std::int32_t sequence, std::int32_t slot) { cells(kernels::kSlotStateSlots)[sequence] = slot; }
  void zero_slot(std::int32_t slot) {
    each_state(slot, [](std::byte* at, std::uint64_t n) { std::memset(at, 0, n); });
  }
  void copy_slot(std::int32_t from, std::int32_t to) {
    const std::vector<float> kept = state(from);
    const auto* source = reinterpret_cast<const std::byte*>(kept.data());
    each_state(to, [&](std::byte* at, std::uint64_t n) {
      std::memcpy(at, source, n);
      source += n;
    });
  }
  // The state of a slot, layer after layer.
  std::vector<float> state(std::int32_t slot) {
    std::vector<float> all;
    each_state(slot, [&](std::byte* at, std::uint64_t n) {
      const auto* values = reinterpret_cast<const float*>(at);
      all.insert(all.end(), values, values + n / 4);
    });
    return all;
  }

  const model::DecoderSpec& spec() const { return spec_; }
  const kernels::Program& program() const { return lowered_.program; }

 private:
  ProgramRun(format::Checkpoint checkpoint, const Options& options) : checkpoint_(std::move(checkpoint)), options_(options) {}

  Status prepare() {
    PLUMB_ASSIGN(spec_, model::read_spec(checkpoint_));
    PLUMB_ASSIGN(model::DecoderWeights weights, model::read_weights(checkpoint_, spec_));
    PLUMB_ASSIGN(const kv::KvLayout layout, kv::plan_kv(spec_, {.context = options_.context, .sequences = options_.sequences,
                                                                .chunk_rows = options_.rows}));
    classes_ = layout.classes.size();
    const auto geometry = layout.geometry();
    PLUMB_ASSIGN(lowered_, model::lower(spec_, std::move(weights), geometry,
                                        {.max_rows = options_.rows, .max_logit_rows = options_.rows, .sequences = options_.sequences,
                                         .state_slots = options_.state_slots}));
    PLUMB_TRY(kernels::validate(program()));
    std::vector<std::byte*> bases(program().slots.size());
    for (std::size_t s = 0; s < bases.size(); ++s) {
      const kernels::Slot& slot = program().slots[s];
      if (slot.kind == kernels::SlotKind::weight) continue;
      memory_[slot.name].assign(slot.bytes, std::byte{0xFF});  // NaN as a float, -1 as an index
      bases[s] = memory_[slot.name].data();
    }
    for (const model::WeightSource& w : lowered_.weights) bases[w.slot] = const_cast<std::byte*>(w.bytes.data());
    for (std::size_t c = 0; c < classes_; ++c) {
      auto* table = cells("kv.c" + std::to_string(c) + ".table");
      const std::int32_t entries = geometry[c].sequences * geometry[c].table_pages;
      for (std::int32_t i = 0; i < entries; ++i) table[i] = entries - 1 - i;
    }
    bound_ = program().phases;
    kernels::bind(bound_, bases);
    if (options_.threads == 0) return {};
    for (const kernels::Phase& phase : program().phases) {
      PLUMB_ASSIGN(const kernels::KernelEntry* kernel,
                   kernels::select_kernel(*phase.op, phase.args.data(), device::Backend::cpu, options_.isa));
      kernels_.push_back(kernel);
    }
    PLUMB_ASSIGN(queue_, device::open_cpu_queue({.threads = options_.threads}));
    return {};
  }

  std::vector<std::byte>& bytes(const std::string& name) { return memory_.at(name); }
  std::int32_t* cells(const std::string& name) { return reinterpret_cast<std::int32_t*>(bytes(name).data()); }
  template <class F>
  void each_state(std::int32_t slot, F&& f) {
    for (const kernels::Slot& s : program().slots) {
      if (!s.name.starts_with(kernels::kSlotRecurrentState)) continue;
      const std::uint64_t size = s.bytes / static_cast<std::uint64_t>(options_.state_slots);
      f(bytes(s.name).data() + static_cast<std::uint64_t>(slot) * size, size);
    }
  }

  format::Checkpoint checkpoint_;
  Options options_;
  model::DecoderSpec spec_;
  model::LoweredModel lowered_;
  std::size_t classes_ = 0;
  std::map<std::string, std::vector<std::byte>> memory_;  // by slot name
  std::vector<kernels::Phase> bound_;
  std::vector<const kernels::KernelEntry*> kernels_;
  std::unique_ptr<device::CpuQueue> queue_;  // null: the references
};

}  // namespace plumb::test
