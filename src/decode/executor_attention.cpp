// Which attention kernel a launch takes: the planner asked with what the step's rows see.
#include <algorithm>

#include "decode/executor.h"

namespace plumb::decode {

std::size_t Executor::choose_attention(Bound& bound, const StepPlan& plan) {
  kernels::AttentionArgs& args = *bound.attention;
  const auto rows = static_cast<std::int32_t>(plan.batch.rows.size());
  kernels::AttentionShape shape{.backend = queue_.info().backend,
                                .isa = bound.uses[0].kernel->isa,
                                .head_dim = args.kv.head_dim,
                                .q_heads = args.q_heads,
                                .kv_heads = args.kv.kv_heads,
                                .rows = rows,
                                .workers = queue_.info().threads,
                                .places = args.partials ? args.partial_places / std::max(rows, 1) : 0};
  std::int32_t last = -1;
  std::int64_t keys = 0;
  for (const kernels::Row& row : plan.batch.rows) {
    const std::int64_t position = row.position.value;
    const std::int64_t first = kernels::kv_first_visible(args.kv, position);
    shape.span = std::max(shape.span, position - first + 1);
    keys += position - first + 1;
    shape.slices = std::max(shape.slices, kernels::attention_slices(first, position));
    shape.stretches = std::max(shape.stretches, kernels::attention_stretches(first, position));
    if (row.sequence != last) ++shape.sequences;
    last = row.sequence;
  }
  kernels::AttentionChoice choice = kernels::plan_attention(options_.attention, shape);
  auto variant = static_cast<std::size_t>(choice.variant);
  if (bound.uses[variant].kernel == nullptr) {  // a backend without the family
    choice = {kernels::AttentionVariant::serial, 1, 0};
    variant = 0;
  }
  KernelUse& use = bound.uses[variant];
  use.refused += choice.slices == 0 ? 1 : 0;
  use.slices = std::max(use.slices, choice.slices);
  args.parts = choice.parts;
  bound.span_cost = kernels::attention_span_cost(args, static_cast<std::uint64_t>(keys));
  return variant;
}

Executor::PhaseUse Executor::use(std::size_t phase) const {
  PhaseUse all;
  for (const KernelUse& use : bound_[phase].uses) {
    all.rows += use.use.rows;
    all.steps += use.use.steps;
  }
  return all;
}

}  // namespace plumb::decode
