#include "decode/executor.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/check.h"
#include "base/mapped_file.h"
#include "kernels/bind.h"

namespace plumb::decode {
namespace {

using device::Buffer;
using kernels::SlotKind;

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

}  // namespace

Result<std::unique_ptr<Executor>> Executor::open(device::Queue& queue, model::LoweredModel model, const kv::KvLayout& layout,
                                                 const ExecutorOptions& options) {
  PLUMB_CHECK(options.depth >= 1);
  PLUMB_TRY(kernels::validate(model.program));
  auto executor = std::unique_ptr<Executor>(new Executor(queue));
  executor->model_ = std::move(model);
  executor->options_ = options;
  PLUMB_TRY(executor->choose_kernels(options.isa));
  PLUMB_TRY(executor->reserve(layout, options));
  return executor;
}

// Kernels are chosen once, on the symbolic arguments at full row counts: what a kernel accepts never depends on a step.
Status Executor::choose_kernels(kernels::Isa isa) {
  for (const kernels::Phase& phase : model_.program.phases) {
    PLUMB_ASSIGN(const kernels::KernelEntry* entry,
                 kernels::select_kernel(*phase.op, phase.args.data(), queue_.info().backend, isa));
    bound_.push_back({phase, entry, -1, {}, {}, nullptr});
    route_.push_back(entry);
    bound_.back().uses[0].kernel = entry;
    if (phase.op != &kernels::op<kernels::AttentionArgs>()) continue;
    for (const kernels::AttentionVariant variant : kernels::kAttentionVariants) {
      bound_.back().uses[static_cast<std::size_t>(variant)].kernel =
          kernels::attention_kernel(variant, phase.args.data(), queue_.info().backend, isa);
    }
  }
  for (Bound& bound : bound_) {  // where they stay
    if (bound.phase.op == &kernels::op<kernels::AttentionArgs>()) {
      bound.attention = static_cast<kernels::AttentionArgs*>(bound.phase.args.data());
    }
  }
  return {};
}

Status Executor::reserve(const kv::KvLayout& layout, const ExecutorOptions& options) {
  const kernels::Program& program = model_.program;
  const MemoryPlan plan = plan_memory(model_, layout, options);
  memory_ = plan.use;
  vocab_ = plan.vocab;
  PLUMB_ASSIGN(constants_bank_, queue_.reserve(plan.constants));
  PLUMB_ASSIGN(kv_bank_, queue_.reserve(plan.kv));
  PLUMB_ASSIGN(step_bank_, queue_.reserve(plan.step));
  PLUMB_ASSIGN(results_bank_, queue_.reserve(plan.results));

  slots_.resize(program.slots.size());
  for (std::size_t s = 0; s < program.slots.size(); ++s) {
    const auto [place, region] = plan.where[s];
    if (place == MemoryPlan::Place::nowhere) continue;
    const device::Bank& bank = place == MemoryPlan::Place::constants ? *constants_bank_ : place == MemoryPlan::Place::kv ? *kv_bank_ : *step_bank_;
    slots_[s] = bank.buffer(region);
  }
  // Constants are uploaded once; a weight that stays mapped is bound where the checkpoint put it.
  PLUMB_ASSIGN(device::CommandBuffer buffer, queue_.begin({.label = "load"}));
  for (const model::WeightSource& source : model_.weights) {
    if (source.mapped) {
      slots_[source.slot] = {const_cast<std::byte*>(source.bytes.data()), source.bytes.size(), 0};  // read-only by op access
    } else if (!source.packed) {
      PLUMB_TRY(buffer->upload(slots_[source.slot], 0, source.bytes));
    }
  }
  for (std::size_t c = 0; c < layout.classes.size(); ++c) {
    tables_.push_back(slot_buffer(("kv.c" + std::to_string(c) + ".table").c_str()));
    table_pages_.push_back(layout.classes[c].geometry.table_pages);
    PLUMB_TRY(buffer->fill(tables_.back(), 0, tables_.back().bytes, std::byte{0xFF}));  // kNoPage in every cell
    write_sequences_.push_back(slot_buffer((kernels::kSlotWriteSequences + std::to_string(c)).c_str()));
  }
  for (std::size_t s = 0; s < program.slots.size(); ++s) {
    const kernels::Slot& slot = program.slots[s];
    if (slot.name == kernels::kSlotStateSlots) {
      state_slots_ = slots_[s];
      PLUMB_TRY(buffer->fill(state_slots_, 0, state_slots_.bytes, std::byte{0xFF}));  // no slot
    } else if (slot.name.starts_with(kernels::kSlotRecurrentState)) {
      state_storage_.push_back({slots_[s], slot.bytes / static_cast<std::uint64_t>(options.state_slots)});
    }
  }
  const Buffer relay = slot_buffer(kernels::kSlotRelay);
  PLUMB_TRY(buffer->fill(relay, 0, relay.bytes, std::byte{0xFF}));  // kInvalidToken until a sampler writes
  lengths_ = slot_buffer(kernels::kSlotLengths);
  PLUMB_TRY(buffer->fill(lengths_, 0, lengths_.bytes, std::byte{0}));
  PLUMB_TRY(queue_.submit(std::move(buffer)).wait());

  while (sample_phase_ < program.phases.size() && program.phases[sample_phase_].phase_class != std::string_view(kernels::kSamplePhase)) {
    ++sample_phase_;
  }
  for (const model::KvLayer& layer : model_.kv_layers) kv_storage_.push_back({slots_[layer.k], slots_[layer.v], layer.layer_class, layer.view});

  std::vector<std::byte*> bases;
  for (const Buffer& b : slots_) bases.push_back(b.address);
  PLUMB_TRY(run_load_phases(bases, options.isa));
  std::vector<kernels::Phase> phases = program.phases;
  kernels::bind(phases, bases);
  for (std::size_t i = 0; i < phases.size(); ++i) bound_[i].phase = phases[i];

  tokens_ = slot_buffer(kernels::kSlotTokens);
  sources_ = slot_buffer(kernels::kSlotSources);
  positions_ = slot_buffer(kernels::kSlotPositions);
  sequences_ = slot_buffer(kernels::kSlotSequences);
  logit_index_ = slot_buffer(kernels::kSlotLogitIndex);
  params_ = slot_buffer(kernels::kSlotSampleParams);
  relay_of_ = slot_buffer(kernels::kSlotRelayOf);
  advance_ = slot_buffer(kernels::kSlotAdvance);
  edits_ = slot_buffer(kernels::kSlotEdits);
  edit_offsets_ = slot_buffer(kernels::kSlotEditOffsets);
  masks_ = slot_buffer(kernels::kSlotMasks);
  mask_of_ = slot_buffer(kernels::kSlotMaskOf);
  sampled_ = slot_buffer(kernels::kSlotSampled);
  digests_ = slot_buffer(kernels::kSlotDigests);
  logits_ = slot_buffer(kernels::kSlotLogits);
  std::size_t region = 0;
  for (std::int32_t r = 0; r < options.depth; ++r) {
    ring_tokens_.push_back(results_bank_->buffer(region++));
    ring_digests_.push_back(results_bank_->buffer(region++));
    ring_lengths_.push_back(results_bank_->buffer(region++));
    if (options.keep_logits) ring_logits_.push_back(results_bank_->buffer(region++));
    ring_taps_.emplace_back();
    for (std::size_t t = 0; t < options.taps.size(); ++t) ring_taps_.back().push_back(results_bank_->buffer(region++));
  }
  transfer_ = results_bank_->buffer(region);
  staging_.reserve(static_cast<std::size_t>(std::max(program.max_rows, program.max_logit_rows + 1)));
  staging_params_.reserve(static_cast<std::size_t>(program.max_logit_rows));
  return {};
}

// One buffer a phase, and what only it read goes at once: stored and packed weights are never both resident as a whole.
Status Executor::run_load_phases(std::span<std::byte* const> bases, kernels::Isa isa) {
  std::vector<kernels::Phase> phases = model_.program.load;
  kernels::bind(phases, bases);
  for (std::size_t i = 0; i < phases.size(); ++i) {
    kernels::Phase& phase = phases[i];
    PLUMB_ASSIGN(const kernels::KernelEntry* entry,
                 kernels::select_kernel(*phase.op, phase.args.data(), queue_.info().backend, isa));
    PLUMB_ASSIGN(device::CommandBuffer buffer, queue_.begin({.label = "load"}));
    PLUMB_TRY(buffer->launch({.kernel = &entry->kernel,
                              .args = phase.args.data(),
                              .args_bytes = phase.op->args_bytes,
                              .cost = phase.op->cost(phase.args.data()),
                              .tag = {phase.op->name, phase.phase_class, phase.layer}}));
    PLUMB_TRY(queue_.submit(std::move(buffer)).wait());
    kernels::Phase symbolic = model_.program.load[i];
    symbolic.op->operands(symbolic.args.data(), [&](const kernels::OperandInfo&, std::uint64_t&, kernels::SlotId slot) {
      for (const model::WeightSource& source : model_.weights) {
        if (source.slot == slot && source.load_only) release_mapped_pages(source.bytes);
      }
    });
  }
  return {};
}

Buffer Executor::slot_buffer(const char* name) const {
  for (std::size_t s = 0; s < model_.program.slots.size(); ++s) {
    if (model_.program.slots[s].name == name) return slots_[s];
  }
  PLUMB_CHECK(!"a lowered program has every standard slot");
  return {};
}

Result<Submission> Executor::submit(const StepTicket& ticket, const Submission& after) {
  const StepPlan& plan = ticket.plan();
  const auto rows = static_cast<std::int32_t>(plan.batch.rows.size());
  const auto logit_rows = static_cast<std::int32_t>(plan.batch.logits.size());
  if (rows < 1 || rows > program().max_rows || logit_rows > program().max_logit_rows) {
    return fail(ErrorCode::invalid_argument,
                "a step holds 1 to " + std::to_string(program().max_rows) + " rows and at most " +
                    std::to_string(program().max_logit_rows) + " rows of logits",
                "step " + std::to_string(ticket.id()), "rows", std::to_string(rows) + " and " + std::to_string(logit_rows));
  }
  PLUMB_CHECK(!plan.want_logits || options_.keep_logits);
  const auto ring = static_cast<std::int32_t>(next_ % static_cast<std::uint64_t>(options_.depth));
  PLUMB_ASSIGN(device::CommandBuffer buffer,
               queue_.begin({.label = "step", .timing = plan.timing, .one_by_one = options_.diag, .after = after.completion_}));
  PLUMB_TRY(encode_forward(*buffer, plan, ring));
  if (!plan.rules_later) PLUMB_TRY(encode_sample(*buffer, plan, ring));
  ++next_;
  return Submission(queue_.submit(std::move(buffer)), this, ring, rows, logit_rows, plan.want_logits);
}

Result<Submission> Executor::submit_sample(const StepTicket& ticket, const Submission& forward) {
  PLUMB_ASSIGN(device::CommandBuffer buffer,
               queue_.begin({.label = "sample", .timing = ticket.plan().timing, .one_by_one = options_.diag, .after = forward.completion_}));
  PLUMB_TRY(encode_sample(*buffer, ticket.plan(), forward.ring_));
  Submission sample = forward;
  sample.forward_ = forward.completion_;
  sample.completion_ = queue_.submit(std::move(buffer));
  return sample;
}

Status Executor::upload_state(device::Recorder& recorder, const StepPlan& plan) {
  for (const kv::TableChange& w : plan.table_writes) {
    const auto c = static_cast<std::size_t>(w.layer_class);
    const std::uint64_t at = (static_cast<std::uint64_t>(w.row) * static_cast<std::uint64_t>(table_pages_[c]) + static_cast<std::uint64_t>(w.index)) * 4;
    PLUMB_TRY(recorder.upload(tables_[c], at, std::as_bytes(std::span(&w.page, 1))));
  }
  for (const kv::ZeroPage& fill : plan.zero_pages) {
    for (const KvStorage& storage : kv_storage_) {
      if (storage.layer_class != fill.layer_class) continue;
      for (int head = 0; head < storage.view.kv_heads; ++head) {
        PLUMB_TRY(recorder.fill(storage.k, storage.block(fill.page, head), storage.block_bytes(), std::byte{0}));
        PLUMB_TRY(recorder.fill(storage.v, storage.block(fill.page, head), storage.block_bytes(), std::byte{0}));
      }
    }
  }
  for (const auto& [row, slot] : plan.state_slots) {
    PLUMB_TRY(recorder.upload(state_slots_, static_cast<std::uint64_t>(row) * 4, std::as_bytes(std::span(&slot, 1))));
  }
  return copy_states(recorder, plan.state_starts);
}

Status Executor::copy_states(device::Recorder& recorder, const std::vector<StateCopy>& copies) {
  for (const StateCopy& copy : copies) {
    for (const StateStorage& storage : state_storage_) {
      const std::uint64_t to = static_cast<std::uint64_t>(copy.to) * storage.slot_bytes;
      if (copy.from < 0) {
        PLUMB_TRY(recorder.fill(storage.buffer, to, storage.slot_bytes, std::byte{0}));
      } else {
        PLUMB_TRY(recorder.copy(storage.buffer, to, storage.buffer, static_cast<std::uint64_t>(copy.from) * storage.slot_bytes, storage.slot_bytes));
      }
    }
  }
  return {};
}

Status Executor::encode_phases(device::Recorder& recorder, const StepPlan& plan, std::int32_t ring, std::size_t first, std::size_t last) {
  std::size_t tap = 0;
  while (tap < options_.taps.size() && options_.taps[tap].phase < first) ++tap;
  for (std::size_t i = first; i < last; ++i) {
    PLUMB_TRY(encode_phase(recorder, bound_[i], plan));
    for (; tap < options_.taps.size() && options_.taps[tap].phase == i; ++tap) {
      const Tap& t = options_.taps[tap];
      const std::uint64_t rows = t.over == kernels::RowCount::rows ? plan.batch.rows.size() : plan.batch.logits.size();
      if (rows == 0) continue;
      PLUMB_TRY(recorder.copy(ring_taps_[static_cast<std::size_t>(ring)][tap], 0, slots_[t.slot], t.offset, t.row_bytes * rows));
    }
  }
  return {};
}

Status Executor::encode_forward(device::Recorder& recorder, const StepPlan& plan, std::int32_t ring) {
  PLUMB_TRY(upload_state(recorder, plan));
  PLUMB_TRY(upload_batch(recorder, plan));
  PLUMB_TRY(encode_phases(recorder, plan, ring, 0, sample_phase_));
  return copy_states(recorder, plan.state_saves);
}

Status Executor::encode_sample(device::Recorder& recorder, const StepPlan& plan, std::int32_t ring) {
  const std::size_t n = plan.batch.logits.size();
  if (n > 0) {
    const DrawRules& rules = plan.rules;
    if (!rules.edits().empty()) PLUMB_TRY(recorder.upload(edits_, 0, std::as_bytes(rules.edits())));
    staging_.assign(n + 1, 0);
    std::copy(rules.edit_offsets().begin(), rules.edit_offsets().end(), staging_.begin());
    PLUMB_TRY(recorder.upload(edit_offsets_, 0, bytes_of(staging_)));
    if (!rules.masks().empty()) PLUMB_TRY(recorder.upload(masks_, 0, std::as_bytes(rules.masks())));
    staging_.assign(n, -1);
    std::copy(rules.mask_of().begin(), rules.mask_of().end(), staging_.begin());
    PLUMB_TRY(recorder.upload(mask_of_, 0, bytes_of(staging_)));
  }
  PLUMB_TRY(encode_phases(recorder, plan, ring, sample_phase_, bound_.size()));
  return encode_results(recorder, plan, ring);
}

Status Executor::upload_batch(device::Recorder& recorder, const StepPlan& plan) {
  const auto column = [&](const Buffer& buffer, const auto& items, auto field) -> Status {
    staging_.clear();
    for (const auto& item : items) staging_.push_back(field(item));
    return recorder.upload(buffer, 0, bytes_of(staging_));
  };
  using kernels::LogitRow;
  using kernels::Row;
  const auto& rows = plan.batch.rows;
  PLUMB_TRY(column(tokens_, rows, [](const Row& r) { return r.token; }));
  PLUMB_TRY(column(sources_, rows, [](const Row& r) { return r.source; }));
  PLUMB_TRY(column(positions_, rows, [](const Row& r) { return r.position.value; }));
  PLUMB_TRY(column(sequences_, rows, [](const Row& r) { return r.sequence; }));
  PLUMB_TRY(column(advance_, rows, [](const Row& r) { return r.advance ? r.sequence : -1; }));
  for (std::size_t c = 0; c < write_sequences_.size(); ++c) {
    PLUMB_TRY(column(write_sequences_[c], rows,
                     [&](const Row& r) { return (r.write_classes >> c & 1U) != 0 ? r.sequence : -1; }));
  }
  const auto& logits = plan.batch.logits;
  if (logits.empty()) return {};
  PLUMB_TRY(column(logit_index_, logits, [](const LogitRow& r) { return r.row; }));
  PLUMB_TRY(column(relay_of_, logits, [](const LogitRow& r) { return r.relay_cell; }));
  staging_params_.clear();
  for (const LogitRow& r : logits) staging_params_.push_back(r.params);
  return recorder.upload(params_, 0, bytes_of(staging_params_));
}

Status Executor::encode_phase(device::Recorder& recorder, Bound& bound, const StepPlan& plan) {
  const bool all = bound.phase.over == kernels::RowCount::rows;
  const auto rows = static_cast<std::int32_t>(all ? plan.batch.rows.size() : plan.batch.logits.size());
  if (rows == 0) return {};
  if (rows != bound.rows) {
    bound.phase.op->set_rows(bound.phase.args.data(), rows);
    bound.cost = bound.phase.op->cost(bound.phase.args.data());
    bound.rows = rows;
  }
  device::Cost cost = bound.cost;
  std::size_t variant = 0;
  if (bound.attention != nullptr) {
    variant = choose_attention(bound, plan);
    cost += bound.span_cost;
  }
  KernelUse& used = bound.uses[variant];
  used.use.rows += static_cast<std::uint64_t>(rows);
  ++used.use.steps;
  staging_operands_.clear();
  if (recorder.wants_operands()) {
    bound.phase.op->operands(bound.phase.args.data(), [&](const kernels::OperandInfo& info, std::uint64_t& at, kernels::SlotId) {
      staging_operands_.push_back({info.name, reinterpret_cast<const void*>(at), info.bytes, info.f32,
                                    info.access == kernels::Access::write || info.access == kernels::Access::read_write});
    });
  }
  return recorder.launch({.kernel = &used.kernel->kernel,
                          .args = bound.phase.args.data(),
                          .args_bytes = bound.phase.op->args_bytes,
                          .cost = cost,
                          .tag = {bound.phase.op->name, bound.phase.phase_class, bound.phase.layer},
                          .operands = staging_operands_});
}

Status Executor::encode_results(device::Recorder& recorder, const StepPlan& plan, std::int32_t ring) {
  const auto n = static_cast<std::uint64_t>(plan.batch.logits.size());
  const auto r = static_cast<std::size_t>(ring);
  PLUMB_TRY(recorder.copy(ring_lengths_[r], 0, lengths_, 0, lengths_.bytes));
  if (n == 0) return {};
  PLUMB_TRY(recorder.copy(ring_tokens_[r], 0, sampled_, 0, n * 4));
  PLUMB_TRY(recorder.copy(ring_digests_[r], 0, digests_, 0, n * 8));
  if (plan.want_logits) {
    PLUMB_TRY(recorder.copy(ring_logits_[r], 0, logits_, 0, n * static_cast<std::uint64_t>(vocab_) * 4));
  }
  return {};
}

device::Cost Executor::declared_cost(std::int32_t position, bool logits) const {
  device::Cost total;
  for (const Bound& b : bound_) {
    if (!logits && b.phase.over != kernels::RowCount::rows) continue;
    kernels::Phase phase = b.phase;
    phase.op->set_rows(phase.args.data(), 1);
    total += phase.op->cost(phase.args.data());
    if (phase.op == &kernels::op<kernels::AttentionArgs>()) {
      kernels::AttentionArgs args;
      std::memcpy(&args, phase.args.data(), sizeof(args));
      const std::int64_t first = kernels::kv_first_visible(args.kv, position);
      total += kernels::attention_span_cost(args, static_cast<std::uint64_t>(position - first + 1));
    }
  }
  return total;
}

Status Executor::verify() const {
  for (const device::Bank* bank : {constants_bank_.get(), kv_bank_.get(), step_bank_.get(), results_bank_.get()}) {
    PLUMB_TRY(bank->verify());
  }
  return {};
}

}  // namespace plumb::decode
