// lower(), and the frame of a step: the slots that all layers share, and what stands before and behind the layers.
#include "model/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kernels/api/row_batch.h"
#include "model/lowering.h"

namespace plumb::model {
namespace lowering {

Result<LoweredModel> Lowering::run(DecoderWeights weights) {
  out_.classes = layer_classes(spec_);
  if (kv_.size() != out_.classes.size()) {
    return fail(ErrorCode::internal, "KV geometry does not match the model's layer classes", spec_.family, "classes",
                std::to_string(kv_.size()));
  }
  program().max_rows = limits_.max_rows;
  program().max_logit_rows = limits_.max_logit_rows;
  if (has_recurrent(spec_) && limits_.state_slots < 1) {
    return fail(ErrorCode::invalid_argument, "a model with recurrent layers needs at least 1", spec_.family, "state_slots",
                std::to_string(limits_.state_slots));
  }
  add_step_slots();
  add_scratch_slots();
  PLUMB_TRY(embed(weights.embedding));
  for (std::size_t i = 0; i < spec_.layers.size(); ++i) {
    layer_ = static_cast<std::int16_t>(i);
    PLUMB_TRY(layer(spec_.layers[i], std::move(weights.layers[i])));
  }
  layer_ = -1;
  PLUMB_TRY(emit(AdvanceArgs{.lengths = ref<std::int32_t>(lengths_),
                             .positions = ref<const std::int32_t>(positions_),
                             .sequences = ref<const std::int32_t>(advance_),
                             .sequence_count = limits_.sequences,
                             .rows = limits_.max_rows},
                 "advance"));
  PLUMB_TRY(head(std::move(weights.final_norm), weights.head));
  return std::move(out_);
}

void Lowering::add_step_slots() {
  tokens_ = batch_slot(kSlotTokens, rows() * 4);
  sources_ = batch_slot(kSlotSources, rows() * 4);
  positions_ = batch_slot(kSlotPositions, rows() * 4);
  sequences_ = batch_slot(kSlotSequences, rows() * 4);
  for (std::size_t c = 0; c < kv_.size(); ++c) {
    write_sequences_.push_back(batch_slot(kSlotWriteSequences + std::to_string(c), rows() * 4));
    tables_.push_back(program().add_slot(fmt::format("kv.c{}.table", c), SlotKind::kv,
                                         static_cast<std::uint64_t>(kv_[c].sequences) * kv_[c].table_pages * 4));
  }
  if (has_recurrent(spec_)) {
    state_table_ = program().add_slot(kSlotStateSlots, SlotKind::kv, static_cast<std::uint64_t>(limits_.sequences) * 4);
  }
  advance_ = batch_slot(kSlotAdvance, rows() * 4);
  lengths_ = program().add_slot(kSlotLengths, SlotKind::state, static_cast<std::uint64_t>(limits_.sequences) * 4);
  edits_ = batch_slot(kSlotEdits, static_cast<std::uint64_t>(limits_.max_edits) * sizeof(LogitEdit));
  edit_offsets_ = batch_slot(kSlotEditOffsets, (logit_rows() + 1) * 4);
  masks_ = batch_slot(kSlotMasks, static_cast<std::uint64_t>(limits_.sequences) * mask_words(spec_.vocab) * 4);
  mask_of_ = batch_slot(kSlotMaskOf, logit_rows() * 4);
  logit_index_ = batch_slot(kSlotLogitIndex, logit_rows() * 4);
  params_ = batch_slot(kSlotSampleParams, logit_rows() * sizeof(SampleParams));
  relay_of_ = batch_slot(kSlotRelayOf, logit_rows() * 4);
  relay_ = program().add_slot(kSlotRelay, SlotKind::state, static_cast<std::uint64_t>(limits_.sequences) * 4);
  logits_ = program().add_slot(kSlotLogits, SlotKind::output, logit_rows() * spec_.vocab * 4);
  sampled_ = program().add_slot(kSlotSampled, SlotKind::output, logit_rows() * 4);
  digests_ = program().add_slot(kSlotDigests, SlotKind::output, logit_rows() * 8);
}

void Lowering::add_scratch_slots() {
  std::uint64_t q = 0;
  std::uint64_t k = 0;
  std::uint64_t v = 0;
  std::uint64_t mixed = 0;
  std::uint64_t gates = 0;
  std::uint64_t experts = 0;
  std::uint64_t top_k = 0;
  std::uint64_t moe_ffn = 0;
  std::uint64_t dense_ffn = 0;
  for (const LayerSpec& layer : spec_.layers) {
    if (const auto* a = std::get_if<AttentionSpec>(&layer.mixer)) {
      q = std::max(q, static_cast<std::uint64_t>(a->q_heads) * a->head_dim);
      k = std::max(k, static_cast<std::uint64_t>(a->kv_heads) * a->head_dim);
      v = std::max(v, static_cast<std::uint64_t>(a->kv_heads) * a->head_dim);
      mixed = std::max(mixed, static_cast<std::uint64_t>(a->q_heads) * a->head_dim);
    } else {
      const auto& r = std::get<RecurrentSpec>(layer.mixer);
      q = std::max(q, static_cast<std::uint64_t>(r.heads) * r.key_dim);
      k = std::max(k, static_cast<std::uint64_t>(r.heads) * r.key_dim);
      v = std::max(v, static_cast<std::uint64_t>(r.heads) * r.value_dim);
      mixed = std::max(mixed, static_cast<std::uint64_t>(r.heads) * r.value_dim);
      gates = std::max<std::uint64_t>(gates, r.heads);
    }
    if (const auto* m = std::get_if<MoeSpec>(&layer.ffn)) {
      experts = std::max<std::uint64_t>(experts, m->experts);
      top_k = std::max<std::uint64_t>(top_k, m->top_k);
      moe_ffn = std::max<std::uint64_t>(moe_ffn, static_cast<std::uint64_t>(m->top_k) * m->ffn);
    } else {
      dense_ffn = std::max<std::uint64_t>(dense_ffn, std::get<DenseSpec>(layer.ffn).ffn);
    }
  }
  const auto hidden = static_cast<std::uint64_t>(spec_.hidden);
  x_ = scratch("x", rows() * hidden);
  h_ = scratch("h", rows() * hidden);
  q_ = scratch("q", rows() * q);
  k_ = scratch("k", rows() * k);
  v_ = scratch("v", rows() * v);
  mixed_ = scratch("mixed", rows() * mixed);
  if (gates > 0) {
    decay_ = scratch("decay", rows() * gates);
    beta_ = scratch("beta", rows() * gates);
  }
  if (experts > 0) {
    router_logits_ = scratch("router_logits", rows() * experts);
    experts_ = scratch("experts", rows() * top_k);
    expert_weights_ = scratch("expert_weights", rows() * top_k);
    offsets_ = scratch("expert_offsets", experts + 1);
    order_ = scratch("expert_order", rows() * top_k);
    moe_h_ = scratch("moe_h", rows() * moe_ffn);
    moe_y_ = scratch("moe_y", rows() * top_k * hidden);
  }
  if (dense_ffn > 0) {
    gate_ = scratch("ffn_gate", rows() * dense_ffn);
    up_ = scratch("ffn_up", rows() * dense_ffn);
  }
  last_ = scratch("last", logit_rows() * hidden);
  if (limits_.act == Act::q8) {
    const std::uint64_t widest = std::max({rows() * std::max({hidden, mixed, dense_ffn, moe_ffn}), logit_rows() * hidden});
    q8_ = program().add_slot("q8", SlotKind::activation, q8_row_bytes(static_cast<std::int64_t>(widest + kQ8Block - 1)));
  }
}

Status Lowering::embed(const MatrixWeight& table) {
  return emit(EmbedArgs{.out = ref<float>(x_),
                        .tokens = ref<const std::int32_t>(tokens_),
                        .sources = ref<const std::int32_t>(sources_),
                        .relay = ref<const std::int32_t>(relay_),
                        .table = place_whole(table),
                        .relay_cells = limits_.sequences,
                        .rows = limits_.max_rows},
              "embed");
}

Status Lowering::head(VectorWeight final_norm, const MatrixWeight& head) {
  PLUMB_TRY(emit(GatherArgs{.out = ref<float>(last_),
                            .in = ref<const float>(x_),
                            .indices = ref<const std::int32_t>(logit_index_),
                            .in_rows = limits_.max_rows,
                            .cols = spec_.hidden,
                            .rows = limits_.max_logit_rows},
                 "head", RowCount::logit_rows));
  PLUMB_TRY(emit(RmsNormArgs{.out = ref<float>(last_),
                             .in = ref<const float>(last_),
                             .weight = place(std::move(final_norm)),
                             .eps = spec_.norm_eps,
                             .cols = spec_.hidden,
                             .rows = limits_.max_logit_rows},
                 "head", RowCount::logit_rows));
  PLUMB_TRY(project(logits_, last_, head, {}, "head", false, RowCount::logit_rows));
  PLUMB_TRY(emit(DigestArgs{.out = ref<std::uint64_t>(digests_),
                            .in = ref<const float>(logits_),
                            .cols = spec_.vocab,
                            .rows = limits_.max_logit_rows},
                 "head", RowCount::logit_rows));
  PLUMB_TRY(emit(EditLogitsArgs{.logits = ref<float>(logits_),
                                .edits = ref<const LogitEdit>(edits_),
                                .offsets = ref<const std::int32_t>(edit_offsets_),
                                .edits_limit = limits_.max_edits,
                                .vocab = spec_.vocab,
                                .rows = limits_.max_logit_rows},
                 kSamplePhase, RowCount::logit_rows));
  // A sequence draws once in a step at most.
  PLUMB_TRY(emit(MaskLogitsArgs{.logits = ref<float>(logits_),
                                .masks = ref<const std::uint32_t>(masks_),
                                .mask_of = ref<const std::int32_t>(mask_of_),
                                .mask_count = limits_.sequences,
                                .vocab = spec_.vocab,
                                .rows = limits_.max_logit_rows},
                 kSamplePhase, RowCount::logit_rows));
  return emit(SampleArgs{.out = ref<std::int32_t>(sampled_),
                         .relay = ref<std::int32_t>(relay_),
                         .logits = ref<const float>(logits_),
                         .params = ref<const SampleParams>(params_),
                         .relay_cells_of = ref<const std::int32_t>(relay_of_),
                         .relay_cells = limits_.sequences,
                         .vocab = spec_.vocab,
                         .rows = limits_.max_logit_rows},
              kSamplePhase, RowCount::logit_rows);
}

}  // namespace lowering

Result<LoweredModel> lower(const DecoderSpec& spec, DecoderWeights weights, std::span<const kernels::KvClassGeometry> kv,
                           const LoweringLimits& limits) {
  if (weights.layers.size() != spec.layers.size()) {
    return fail(ErrorCode::shape_mismatch, fmt::format("the spec has {} layers", spec.layers.size()), spec.family, "layers",
                std::to_string(weights.layers.size()));
  }
  return lowering::Lowering(spec, kv, limits).run(std::move(weights));
}

}  // namespace plumb::model
