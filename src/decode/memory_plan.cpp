#include "decode/memory_plan.h"

#include <algorithm>

namespace plumb::decode {

using kernels::SlotKind;

namespace {

// One page or state on its way to or from the host.
std::uint64_t transfer_bytes(const kernels::Program& program, const kv::KvLayout& layout, const ExecutorOptions& options) {
  std::uint64_t page = 1;
  for (const kv::KvClass& c : layout.classes) page = std::max(page, c.page_bytes);
  std::uint64_t state = 0;
  for (const kernels::Slot& slot : program.slots) {
    if (slot.name.starts_with(kernels::kSlotRecurrentState)) state += slot.bytes / static_cast<std::uint64_t>(options.state_slots);
  }
  return std::max(page, state);
}

void plan_results(const kernels::Program& program, const kv::KvLayout& layout, const ExecutorOptions& options, MemoryPlan& plan) {
  const auto logit_rows = static_cast<std::uint64_t>(program.max_logit_rows);
  for (const kernels::Slot& slot : program.slots) {
    if (slot.name == kernels::kSlotLogits) plan.vocab = static_cast<std::int32_t>(slot.bytes / 4 / logit_rows);
  }
  device::BankPlan& results = plan.results;
  for (std::int32_t r = 0; r < options.depth; ++r) {
    results.add("tokens", logit_rows * 4);
    results.add("digests", logit_rows * 8);
    results.add("lengths", static_cast<std::uint64_t>(layout.options.sequences) * 4);
    if (options.keep_logits) results.add("logits", logit_rows * static_cast<std::uint64_t>(plan.vocab) * 4);
    for (const Tap& tap : options.taps) {
      results.add("tap", tap.row_bytes * static_cast<std::uint64_t>(std::max(program.max_rows, program.max_logit_rows)));
    }
  }
  results.add("transfer", transfer_bytes(program, layout, options));
  for (const auto& region : results.regions) plan.use.results += region.bytes;
}

}  // namespace

MemoryPlan plan_memory(const model::LoweredModel& model, const kv::KvLayout& layout, const ExecutorOptions& options) {
  using Place = MemoryPlan::Place;
  MemoryPlan plan;
  const kernels::Program& program = model.program;
  plan.where.assign(program.slots.size(), {Place::nowhere, 0});
  for (std::size_t s = 0; s < program.slots.size(); ++s) {
    const kernels::Slot& slot = program.slots[s];
    if (slot.kind == SlotKind::weight) continue;
    const bool kv = slot.kind == SlotKind::kv;
    plan.where[s] = {kv ? Place::kv : Place::step, (kv ? plan.kv : plan.step).add(slot.name, slot.bytes)};
    (kv ? plan.use.kv : plan.use.activations) += slot.bytes;
  }
  for (const model::WeightSource& source : model.weights) {
    if (source.mapped) {
      if (!source.load_only) plan.use.mapped_weights += source.bytes.size();
      continue;
    }
    const kernels::Slot& slot = program.slots[source.slot];
    const std::uint64_t bytes = source.packed ? slot.bytes : source.bytes.size();
    plan.where[source.slot] = {Place::constants, plan.constants.add(slot.name, bytes)};
    (source.packed ? plan.use.packed_weights : plan.use.constants) += bytes;
  }
  plan_results(program, layout, options, plan);
  return plan;
}

}  // namespace plumb::decode
