// The layers of a model: what each kind of mixer and of feed-forward becomes.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "kernels/api/row_batch.h"
#include "model/lowering.h"

namespace plumb::model::lowering {

Status Lowering::layer(const LayerSpec& spec, LayerWeights weights) {
  const char* phase_class = mixer_class(spec.mixer);
  PLUMB_TRY(norm(std::move(weights.mixer_norm), phase_class));
  if (const auto* attention = std::get_if<AttentionSpec>(&spec.mixer)) {
    PLUMB_TRY(this->attention(*attention, std::get<AttentionWeights>(std::move(weights.mixer)), phase_class));
  } else {
    PLUMB_TRY(recurrent(std::get<RecurrentSpec>(spec.mixer), std::get<RecurrentWeights>(std::move(weights.mixer)), phase_class));
  }
  if (const auto* moe = std::get_if<MoeSpec>(&spec.ffn)) {
    PLUMB_TRY(norm(std::move(weights.ffn_norm), "moe"));
    return this->moe(*moe, std::get<MoeWeights>(std::move(weights.ffn)));
  }
  PLUMB_TRY(norm(std::move(weights.ffn_norm), "dense"));
  return dense(std::get<DenseSpec>(spec.ffn), std::get<DenseWeights>(std::move(weights.ffn)));
}

Status Lowering::norm(VectorWeight&& weight, const char* phase_class) {
  return emit(RmsNormArgs{.out = ref<float>(h_),
                          .in = ref<const float>(x_),
                          .weight = place(std::move(weight)),
                          .eps = spec_.norm_eps,
                          .cols = spec_.hidden,
                          .rows = limits_.max_rows},
              phase_class);
}

Status Lowering::attention(const AttentionSpec& a, AttentionWeights w, const char* phase_class) {
  PLUMB_ASSIGN(const SlotId table, rope_table(a.rope));
  PLUMB_TRY(project(q_, h_, w.q, std::move(w.q_bias), phase_class));
  PLUMB_TRY(project(k_, h_, w.k, std::move(w.k_bias), phase_class));
  PLUMB_TRY(project(v_, h_, w.v, std::move(w.v_bias), phase_class));
  if (a.qk_norm) {
    PLUMB_TRY(head_norm(q_, a.q_heads, a.head_dim, std::move(w.q_norm), phase_class));
    PLUMB_TRY(head_norm(k_, a.kv_heads, a.head_dim, std::move(w.k_norm), phase_class));
  }
  PLUMB_TRY(rotate(q_, a.q_heads, a, table, phase_class));
  PLUMB_TRY(rotate(k_, a.kv_heads, a, table, phase_class));
  const KvView kv = kv_view(a);
  const std::size_t c = class_of(out_.classes, a.window);
  PLUMB_TRY(emit(KvAppendArgs{.kv = kv,
                              .k = ref<const float>(k_),
                              .v = ref<const float>(v_),
                              .positions = ref<const std::int32_t>(positions_),
                              .sequences = ref<const std::int32_t>(write_sequences_[c]),
                              .rows = limits_.max_rows},
                 phase_class));
  const SlotId partials = attention_partials();
  PLUMB_TRY(emit(AttentionArgs{.out = ref<float>(mixed_),
                               .q = ref<const float>(q_),
                               .kv = kv,
                               .sinks = place(std::move(w.sinks)),
                               .positions = ref<const std::int32_t>(positions_),
                               .sequences = ref<const std::int32_t>(sequences_),
                               .scale = a.scale,
                               .softcap = a.softcap,
                               .q_heads = a.q_heads,
                               .rows = limits_.max_rows,
                               .partials = partials == kNoSlot ? Ref<float>{} : ref<float>(partials),
                               .partial_places = limits_.attention_places},
                 phase_class));
  return project(x_, mixed_, w.o, std::move(w.o_bias), phase_class, true);
}

Result<SlotId> Lowering::rope_table(const RopeSpec& rope) {
  for (const auto& [known, slot] : rope_tables_) {
    if (known == rope) return slot;
  }
  const std::int32_t pairs = rope.rotary_dims / 2;
  const SlotId slot = scratch("rope_table", rows() * pairs * 2);
  PLUMB_TRY(emit(RopeTableArgs{.out = ref<float>(slot),
                               .positions = ref<const std::int32_t>(positions_),
                               .frequencies = place(VectorWeight{"rope_frequencies", rope_frequencies(rope)}),
                               .concentration = rope_concentration(rope),
                               .pairs = pairs,
                               .rows = limits_.max_rows},
                 "rope_table"));
  rope_tables_.emplace_back(rope, slot);
  return slot;
}

Status Lowering::head_norm(SlotId x, std::int32_t heads, std::int32_t head_dim, VectorWeight&& weight, const char* phase_class) {
  return emit(RmsNormArgs{.out = ref<float>(x),
                          .in = ref<const float>(x),
                          .weight = place(std::move(weight)),
                          .eps = spec_.norm_eps,
                          .groups = heads,
                          .cols = head_dim,
                          .rows = limits_.max_rows},
              phase_class);
}

Status Lowering::rotate(SlotId x, std::int32_t heads, const AttentionSpec& a, SlotId table, const char* phase_class) {
  return emit(RopeArgs{.x = ref<float>(x),
                       .table = ref<const float>(table),
                       .pairing = a.rope.pairing,
                       .heads = heads,
                       .head_dim = a.head_dim,
                       .pairs = a.rope.rotary_dims / 2,
                       .rows = limits_.max_rows},
              phase_class);
}

KvView Lowering::kv_view(const AttentionSpec& a) {
  const std::size_t c = class_of(out_.classes, a.window);
  const KvClassGeometry& g = kv_[c];
  KvView view{.table = ref<const std::int32_t>(tables_[c]),
              .format = g.format,
              .pages = g.pages,
              .page_rows = g.page_rows,
              .table_pages = g.table_pages,
              .sequences = g.sequences,
              .kv_heads = a.kv_heads,
              .head_dim = a.head_dim,
              .window = a.window};
  const std::uint64_t bytes = kv_pool_bytes(view);
  const SlotId k = program().add_slot(fmt::format("kv.c{}.layer{}.k", c, layer_), SlotKind::kv, bytes);
  const SlotId v = program().add_slot(fmt::format("kv.c{}.layer{}.v", c, layer_), SlotKind::kv, bytes);
  view.k = ref<std::byte>(k);
  view.v = ref<std::byte>(v);
  out_.kv_layers.push_back({k, v, static_cast<std::int32_t>(c), view});
  return view;
}

SlotId Lowering::attention_partials() {
  if (partials_ != kNoSlot || limits_.attention_places == 0) return partials_;
  std::uint64_t bytes = 0;
  for (const LayerSpec& layer : spec_.layers) {
    const auto* a = std::get_if<AttentionSpec>(&layer.mixer);
    if (a != nullptr) bytes = std::max(bytes, attention_partial_bytes(limits_.attention_places, a->q_heads, a->head_dim));
  }
  partials_ = program().add_slot("attention_partials", SlotKind::activation, bytes);
  return partials_;
}

Status Lowering::recurrent(const RecurrentSpec& r, RecurrentWeights w, const char* phase_class) {
  PLUMB_TRY(project(q_, h_, w.q, {}, phase_class));
  PLUMB_TRY(project(k_, h_, w.k, {}, phase_class));
  PLUMB_TRY(project(v_, h_, w.v, {}, phase_class));
  PLUMB_TRY(project(decay_, h_, w.decay, std::move(w.decay_bias), phase_class));
  PLUMB_TRY(project(beta_, h_, w.beta, {}, phase_class));
  const SlotId state =
      program().add_slot(kSlotRecurrentState + std::to_string(layer_), SlotKind::state,
                         static_cast<std::uint64_t>(limits_.state_slots) * state_slot_bytes(r.heads, r.key_dim, r.value_dim));
  PLUMB_TRY(emit(GatedDeltaArgs{.out = ref<float>(mixed_),
                                .state = ref<std::byte>(state),
                                .q = ref<const float>(q_),
                                .k = ref<const float>(k_),
                                .v = ref<const float>(v_),
                                .decay = ref<const float>(decay_),
                                .beta = ref<const float>(beta_),
                                .rates = place(std::move(w.decay_rates)),
                                .sequences = ref<const std::int32_t>(sequences_),
                                .state_slots = ref<const std::int32_t>(state_table_),
                                .sequence_count = limits_.sequences,
                                .slots = limits_.state_slots,
                                .heads = r.heads,
                                .key_dim = r.key_dim,
                                .value_dim = r.value_dim,
                                .rows = limits_.max_rows},
                 phase_class));
  return project(x_, mixed_, w.o, {}, phase_class, true);
}

Status Lowering::moe(const MoeSpec& m, MoeWeights w) {
  const auto rows32 = limits_.max_rows;
  PLUMB_TRY(project(router_logits_, h_, w.router, std::move(w.router_bias), "moe"));
  PLUMB_TRY(emit(RouteArgs{.experts = ref<std::int32_t>(experts_),
                           .weights = ref<float>(expert_weights_),
                           .logits = ref<const float>(router_logits_),
                           .expert_count = m.experts,
                           .top_k = m.top_k,
                           .rows = rows32},
                 "moe"));
  PLUMB_TRY(emit(MoeGroupArgs{.offsets = ref<std::int32_t>(offsets_),
                              .order = ref<std::int32_t>(order_),
                              .experts = ref<const std::int32_t>(experts_),
                              .expert_count = m.experts,
                              .top_k = m.top_k,
                              .rows = rows32},
                 "moe"));
  MoeGluArgs glu{.out = ref<float>(moe_h_),
                 .offsets = ref<const std::int32_t>(offsets_),
                 .order = ref<const std::int32_t>(order_),
                 .gate_bias = place(std::move(w.gate_bias)),
                 .up_bias = place(std::move(w.up_bias)),
                 .bias_expert_stride = m.ffn,
                 .bias_stride = 1,
                 .spec = m.glu,
                 .top_k = m.top_k,
                 .rows = rows32};
  PLUMB_TRY(give_activations(glu, w.gate, h_, 1, "moe"));
  PLUMB_ASSIGN(std::tie(glu.gate, glu.up), operands(w.gate, w.up));
  PLUMB_TRY(emit(glu, "moe"));
  MoeDownArgs down{.out = ref<float>(moe_y_),
                   .offsets = ref<const std::int32_t>(offsets_),
                   .order = ref<const std::int32_t>(order_),
                   .bias = place(std::move(w.down_bias)),
                   .top_k = m.top_k,
                   .rows = rows32};
  PLUMB_TRY(give_activations(down, w.down, moe_h_, m.top_k, "moe"));
  PLUMB_ASSIGN(down.down, operand(w.down));
  PLUMB_TRY(emit(down, "moe"));
  return emit(MoeCombineArgs{.x = ref<float>(x_),
                             .in = ref<const float>(moe_y_),
                             .weights = ref<const float>(expert_weights_),
                             .cols = spec_.hidden,
                             .top_k = m.top_k,
                             .rows = rows32},
              "moe");
}

Status Lowering::dense(const DenseSpec& d, DenseWeights w) {
  PLUMB_TRY(project(gate_, h_, w.gate, {}, "dense"));
  PLUMB_TRY(project(up_, h_, w.up, {}, "dense"));
  PLUMB_TRY(emit(GluArgs{.out = ref<float>(gate_),
                         .gate = ref<const float>(gate_),
                         .up = ref<const float>(up_),
                         .spec = d.glu,
                         .cols = d.ffn,
                         .rows = limits_.max_rows},
                 "dense"));
  return project(x_, gate_, w.down, {}, "dense", true);
}

}  // namespace plumb::model::lowering
