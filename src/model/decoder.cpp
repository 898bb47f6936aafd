#include "model/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "kernels/api/row_batch.h"
#include "kernels/table.h"

namespace plumb::model {
namespace {

using namespace plumb::kernels;  // NOLINT: lowering speaks of nothing but ops and slots

// One use: builds a LoweredModel, phase by phase. Activation slots are shared by all layers and sized for the widest.
class Lowering {
 public:
  Lowering(const DecoderSpec& spec, std::span<const KvClassGeometry> kv, const LoweringLimits& limits)
      : spec_(spec), kv_(kv), limits_(limits) {}

  Result<LoweredModel> run(DecoderWeights weights) {
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
    add_shared_slots();
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

 private:
  Program& program() { return out_.program; }
  std::uint64_t rows() const { return static_cast<std::uint64_t>(limits_.max_rows); }
  std::uint64_t logit_rows() const { return static_cast<std::uint64_t>(limits_.max_logit_rows); }

  SlotId batch_slot(const std::string& name, std::uint64_t bytes) { return program().add_slot(name, SlotKind::batch, bytes); }
  SlotId scratch(const char* name, std::uint64_t elements) {
    return program().add_slot(name, SlotKind::activation, elements * 4);
  }

  void add_shared_slots() {
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

  // The view of a matrix with its references on slots. Views of one tensor (gate and up) share its slot.
  WeightView place(const MatrixWeight& w, bool load_only = false) {
    WeightView view = w.view;
    view.data = ref<const std::byte>(weight_slot(w.name, w.data, load_only), w.data_offset);
    if (!w.scales.empty()) {
      view.scales = ref<const std::byte>(weight_slot(w.name + ".scales", w.scales, load_only), w.scales_offset);
    }
    return view;
  }
  SlotId weight_slot(const std::string& name, std::span<const std::byte> bytes, bool load_only) {
    for (WeightSource& source : out_.weights) {
      if (source.mapped && source.bytes.data() == bytes.data() && source.bytes.size() == bytes.size()) {
        source.load_only = source.load_only && load_only;
        return source.slot;
      }
    }
    const SlotId slot = program().add_slot(name, SlotKind::weight, bytes.size());
    out_.weights.push_back({.slot = slot, .bytes = bytes, .mapped = true, .load_only = load_only});
    return slot;
  }
  bool takes_q8(const MatrixWeight& w) const { return limits_.act == Act::q8 && packed_format(w.view.format).has_value(); }
  // The view that an op reads: its factors too.
  WeightView place_whole(const MatrixWeight& w) {
    WeightView view = place(w);
    view.factors = place(VectorWeight(w.factors));
    return view;
  }
  // The view that a product multiplies by: packed at load where it takes q8 rows, as stored elsewhere.
  Result<WeightView> operand(const MatrixWeight& w) {
    if (!takes_q8(w)) return place_whole(w);
    PackArgs pack{.from = place(w, true), .rows = w.view.experts};
    WeightView to = packed_shape(w.view);
    const auto data = static_cast<std::uint64_t>(to.experts * to.expert_stride);  // whole vectors of 32 bytes
    const auto scales = static_cast<std::uint64_t>(to.experts * to.scale_expert_stride);
    const SlotId slot = program().add_slot(w.name + ".packed", SlotKind::weight, data + scales);
    out_.weights.push_back({.slot = slot, .packed = true});
    pack.data = ref<std::byte>(slot);
    pack.scales = ref<std::byte>(slot, data);
    if (Status ok = check(pack); !ok) return ok.error();
    program().load.push_back(make_phase(pack, layer_, "load"));
    to.data = ref<const std::byte>(slot);
    to.scales = ref<const std::byte>(slot, data);
    to.factors = place(VectorWeight(w.factors));
    return to;
  }
  Ref<const float> place(VectorWeight&& w) {
    if (w.empty()) return {};
    out_.constants.push_back(std::move(w.values));
    const auto bytes = std::as_bytes(std::span(out_.constants.back()));
    const SlotId slot = program().add_slot(w.name, SlotKind::weight, bytes.size());
    out_.weights.push_back({.slot = slot, .bytes = bytes});
    return ref<const float>(slot);
  }

  template <class Args>
  Status emit(const Args& args, const char* phase_class, RowCount over = RowCount::rows) {
    if (Status ok = check(args); !ok) return ok;
    program().phases.push_back(make_phase(args, layer_, phase_class, over));
    visit_operands(args, [&](const OperandInfo& info, const auto& operand) {
      if (info.access != Access::read && operand.slot == quantized_) quantized_ = kNoSlot;
    });
    return {};
  }

  // The q8 form of what slot `in` holds now: `groups` vectors of `cols` in each row. Emitted once for all that read it.
  Result<Ref<const std::byte>> quantized(SlotId in, std::int32_t cols, std::int32_t groups, const char* phase_class, RowCount over) {
    if (quantized_ != in) {
      PLUMB_TRY(emit(QuantizeArgs{.out = ref<std::byte>(q8_),
                                  .in = ref<const float>(in),
                                  .groups = groups,
                                  .cols = cols,
                                  .rows = over == RowCount::rows ? limits_.max_rows : limits_.max_logit_rows},
                     phase_class, over));
      quantized_ = in;
    }
    return ref<const std::byte>(q8_);
  }

  Status embed(const MatrixWeight& table) {
    return emit(EmbedArgs{.out = ref<float>(x_),
                          .tokens = ref<const std::int32_t>(tokens_),
                          .sources = ref<const std::int32_t>(sources_),
                          .relay = ref<const std::int32_t>(relay_),
                          .table = place_whole(table),
                          .relay_cells = limits_.sequences,
                          .rows = limits_.max_rows},
                "embed");
  }

  Status norm(VectorWeight&& weight, const char* phase_class) {
    return emit(RmsNormArgs{.out = ref<float>(h_),
                            .in = ref<const float>(x_),
                            .weight = place(std::move(weight)),
                            .eps = spec_.norm_eps,
                            .cols = spec_.hidden,
                            .rows = limits_.max_rows},
                phase_class);
  }

  Status project(SlotId out, SlotId in, const MatrixWeight& weight, VectorWeight&& bias, const char* phase_class,
                 bool accumulate = false, RowCount over = RowCount::rows) {
    MatmulArgs args{.out = ref<float>(out),
                    .bias = place(std::move(bias)),
                    .accumulate = accumulate ? 1 : 0,
                    .rows = over == RowCount::rows ? limits_.max_rows : limits_.max_logit_rows};
    PLUMB_TRY(give_activations(args, weight, in, 1, phase_class, over));
    PLUMB_ASSIGN(args.weight, operand(weight));
    return emit(args, phase_class, over);
  }
  // Points a product at the rows of slot `in`, in the form that `weight` is multiplied by.
  template <class Args>
  Status give_activations(Args& args, const MatrixWeight& weight, SlotId in, std::int32_t groups, const char* phase_class,
                          RowCount over = RowCount::rows) {
    if (takes_q8(weight)) {
      PLUMB_ASSIGN(args.in_q8, quantized(in, weight.view.cols, groups, phase_class, over));
    } else {
      args.in = ref<const float>(in);
    }
    return {};
  }

  Status layer(const LayerSpec& spec, LayerWeights weights) {
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

  // The cos/sin table of a rope, emitted where its first layer needs it and reused by the rest.
  Result<SlotId> rope_table(const RopeSpec& rope) {
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

  KvView kv_view(const AttentionSpec& a) {
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
    view.k = ref<std::byte>(program().add_slot(fmt::format("kv.c{}.layer{}.k", c, layer_), SlotKind::kv, bytes));
    view.v = ref<std::byte>(program().add_slot(fmt::format("kv.c{}.layer{}.v", c, layer_), SlotKind::kv, bytes));
    return view;
  }

  // One for all layers, sized for the widest.
  SlotId attention_partials() {
    if (partials_ != kNoSlot || limits_.attention_slices == 0) return partials_;
    std::uint64_t bytes = 0;
    for (const LayerSpec& layer : spec_.layers) {
      const auto* a = std::get_if<AttentionSpec>(&layer.mixer);
      if (a != nullptr) bytes = std::max(bytes, attention_partial_bytes(limits_.attention_slices, a->q_heads, a->head_dim));
    }
    partials_ = program().add_slot("attention_partials", SlotKind::activation, bytes);
    return partials_;
  }

  Status attention(const AttentionSpec& a, AttentionWeights w, const char* phase_class) {
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
                                 .partial_slices = limits_.attention_slices},
                   phase_class));
    return project(x_, mixed_, w.o, std::move(w.o_bias), phase_class, true);
  }

  Status recurrent(const RecurrentSpec& r, RecurrentWeights w, const char* phase_class) {
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

  Status head_norm(SlotId x, std::int32_t heads, std::int32_t head_dim, VectorWeight&& weight, const char* phase_class) {
    return emit(RmsNormArgs{.out = ref<float>(x),
                            .in = ref<const float>(x),
                            .weight = place(std::move(weight)),
                            .eps = spec_.norm_eps,
                            .groups = heads,
                            .cols = head_dim,
                            .rows = limits_.max_rows},
                phase_class);
  }

  Status rotate(SlotId x, std::int32_t heads, const AttentionSpec& a, SlotId table, const char* phase_class) {
    return emit(RopeArgs{.x = ref<float>(x),
                         .table = ref<const float>(table),
                         .pairing = a.rope.pairing,
                         .heads = heads,
                         .head_dim = a.head_dim,
                         .pairs = a.rope.rotary_dims / 2,
                         .rows = limits_.max_rows},
                phase_class);
  }

  Status moe(const MoeSpec& m, MoeWeights w) {
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
    PLUMB_ASSIGN(glu.gate, operand(w.gate));
    PLUMB_ASSIGN(glu.up, operand(w.up));
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

  Status dense(const DenseSpec& d, DenseWeights w) {
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

  Status head(VectorWeight final_norm, const MatrixWeight& head) {
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

  const DecoderSpec& spec_;
  std::span<const KvClassGeometry> kv_;
  const LoweringLimits& limits_;
  LoweredModel out_;
  std::int16_t layer_ = -1;

  SlotId tokens_ = kNoSlot, sources_ = kNoSlot, positions_ = kNoSlot, sequences_ = kNoSlot;
  SlotId advance_ = kNoSlot, lengths_ = kNoSlot, edits_ = kNoSlot, edit_offsets_ = kNoSlot;
  SlotId masks_ = kNoSlot, mask_of_ = kNoSlot;
  SlotId logit_index_ = kNoSlot, params_ = kNoSlot, relay_of_ = kNoSlot, relay_ = kNoSlot;
  SlotId logits_ = kNoSlot, sampled_ = kNoSlot, digests_ = kNoSlot;
  SlotId x_ = kNoSlot, h_ = kNoSlot, q_ = kNoSlot, k_ = kNoSlot, v_ = kNoSlot, mixed_ = kNoSlot, last_ = kNoSlot;
  SlotId router_logits_ = kNoSlot, experts_ = kNoSlot, expert_weights_ = kNoSlot, offsets_ = kNoSlot, order_ = kNoSlot;
  SlotId moe_h_ = kNoSlot, moe_y_ = kNoSlot, gate_ = kNoSlot, up_ = kNoSlot;
  SlotId partials_ = kNoSlot;
  SlotId q8_ = kNoSlot;         // one set of q8 rows, of whatever was quantized last
  SlotId quantized_ = kNoSlot;  // the slot whose present content q8_ holds; kNoSlot: of none
  SlotId decay_ = kNoSlot, beta_ = kNoSlot, state_table_ = kNoSlot;
  std::vector<SlotId> write_sequences_;  // per layer class
  std::vector<SlotId> tables_;           // per layer class
  std::vector<std::pair<RopeSpec, SlotId>> rope_tables_;
};

}  // namespace

Result<LoweredModel> lower(const DecoderSpec& spec, DecoderWeights weights, std::span<const KvClassGeometry> kv,
                           const LoweringLimits& limits) {
  if (weights.layers.size() != spec.layers.size()) {
    return fail(ErrorCode::shape_mismatch, fmt::format("the spec has {} layers", spec.layers.size()), spec.family, "layers",
                std::to_string(weights.layers.size()));
  }
  return Lowering(spec, kv, limits).run(std::move(weights));
}

}  // namespace plumb::model
