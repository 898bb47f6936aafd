// Lowering from the inside: the one walk over a DecoderSpec that builds a LoweredModel. decoder.h is what others call.
//
// Three files: decoder.cpp has the frame of a step, lowering_layers.cpp its layers, lowering_weights.cpp the weights and the
// products with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "kernels/table.h"
#include "model/decoder.h"

namespace plumb::model::lowering {

using namespace plumb::kernels;  // NOLINT: lowering speaks of nothing but ops and slots; its namespace keeps this to itself

// One use: builds a LoweredModel, phase by phase. Activation slots are shared by all layers and sized for the widest.
class Lowering {
 public:
  Lowering(const DecoderSpec& spec, std::span<const KvClassGeometry> kv, const LoweringLimits& limits)
      : spec_(spec), kv_(kv), limits_(limits) {}

  // REQUIRES: weights.layers has one entry per layer of the spec.
  Result<LoweredModel> run(DecoderWeights weights);

 private:
  Program& program() { return out_.program; }
  std::uint64_t rows() const { return static_cast<std::uint64_t>(limits_.max_rows); }
  std::uint64_t logit_rows() const { return static_cast<std::uint64_t>(limits_.max_logit_rows); }

  // Slots.
  SlotId batch_slot(const std::string& name, std::uint64_t bytes) { return program().add_slot(name, SlotKind::batch, bytes); }
  SlotId scratch(const char* name, std::uint64_t elements) {  // of four bytes
    return program().add_slot(name, SlotKind::activation, elements * 4);
  }
  void add_step_slots();     // what a step is told, what it keeps between steps and what it answers
  void add_scratch_slots();  // activations

  // Appends a phase to the step. Errors: those of the op's check.
  template <class Args>
  Status emit(const Args& args, const char* phase_class, RowCount over = RowCount::rows);

  // The ends of a step: tokens to x, and x to logits and drawn tokens.
  Status embed(const MatrixWeight& table);
  Status head(VectorWeight final_norm, const MatrixWeight& head);

  // A layer: x to h by a norm, h through the mixer and added to x; the same again through the feed-forward.
  Status layer(const LayerSpec& spec, LayerWeights weights);
  Status norm(VectorWeight&& weight, const char* phase_class);  // x to h
  Status attention(const AttentionSpec& a, AttentionWeights w, const char* phase_class);
  Status recurrent(const RecurrentSpec& r, RecurrentWeights w, const char* phase_class);
  Status moe(const MoeSpec& m, MoeWeights w);
  Status dense(const DenseSpec& d, DenseWeights w);

  // Parts of attention.
  // The cos/sin table of a rope, emitted where its first layer needs it and reused by the rest.
  Result<SlotId> rope_table(const RopeSpec& rope);
  // `x`: the slot of the queries or of the keys, changed in place.
  Status head_norm(SlotId x, std::int32_t heads, std::int32_t head_dim, VectorWeight&& weight, const char* phase_class);
  Status rotate(SlotId x, std::int32_t heads, const AttentionSpec& a, SlotId table, const char* phase_class);
  // The pools of the present layer, with slots of their own, behind the page table of its class.
  KvView kv_view(const AttentionSpec& a);
  // One for all layers, sized for the widest; kNoSlot when workers share out no keys.
  SlotId attention_partials();

  // Weights.
  // The view of a matrix with its references on slots. Views of one tensor (gate and up) share its slot. `load_only`: no phase
  // of a step reads it.
  WeightView place(const MatrixWeight& w, bool load_only = false);
  Ref<const float> place(VectorWeight&& w);  // no slot for an empty one
  SlotId weight_slot(const std::string& name, std::span<const std::byte> bytes, bool load_only);
  // The view that an op reads: its factors too.
  WeightView place_whole(const MatrixWeight& w);
  // The view that a product multiplies by: packed at load where it takes q8 rows, as stored elsewhere.
  Result<WeightView> operand(const MatrixWeight& w);
  // The views of two matrices that one product reads together; packed, they share their memory group by group.
  Result<std::pair<WeightView, WeightView>> operands(const MatrixWeight& a, const MatrixWeight& b);
  // `w` as the matrix number `turn` of `interleaved` in a slot, whose scales lie from `scales_at` on.
  Result<WeightView> packed(const MatrixWeight& w, SlotId slot, std::uint64_t scales_at, std::int32_t interleaved, std::int32_t turn);

  // Products.
  bool takes_q8(const MatrixWeight& w) const { return limits_.act == Act::q8 && packed_format(w.view.format).has_value(); }
  // out = weight x in + bias, or added to `out`.
  Status project(SlotId out, SlotId in, const MatrixWeight& weight, VectorWeight&& bias, const char* phase_class,
                 bool accumulate = false, RowCount over = RowCount::rows);
  // Points a product at the rows of slot `in`, in the form that `weight` is multiplied by.
  template <class Args>
  Status give_activations(Args& args, const MatrixWeight& weight, SlotId in, std::int32_t groups, const char* phase_class,
                          RowCount over = RowCount::rows);
  // The q8 form of what slot `in` holds now: `groups` vectors of `cols` in each row. Emitted once for all that read it.
  Result<Ref<const std::byte>> quantized(SlotId in, std::int32_t cols, std::int32_t groups, const char* phase_class,
                                         RowCount over);

  const DecoderSpec& spec_;
  std::span<const KvClassGeometry> kv_;
  const LoweringLimits& limits_;
  LoweredModel out_;
  std::int16_t layer_ = -1;  // the present one; -1: before and behind the layers

  // The rows of a step, and the tables of what their sequences own.
  SlotId tokens_ = kNoSlot, sources_ = kNoSlot, positions_ = kNoSlot, sequences_ = kNoSlot;
  std::vector<SlotId> write_sequences_;  // per layer class
  std::vector<SlotId> tables_;           // per layer class
  SlotId state_table_ = kNoSlot;
  SlotId advance_ = kNoSlot, lengths_ = kNoSlot;
  // The rows that want logits, how those are changed and drawn from, and what comes out.
  SlotId edits_ = kNoSlot, edit_offsets_ = kNoSlot, masks_ = kNoSlot, mask_of_ = kNoSlot;
  SlotId logit_index_ = kNoSlot, params_ = kNoSlot, relay_of_ = kNoSlot, relay_ = kNoSlot;
  SlotId logits_ = kNoSlot, sampled_ = kNoSlot, digests_ = kNoSlot;
  // Activations. x_ is the residual stream, h_ what a layer's half reads of it, last_ the rows of x_ that want logits.
  SlotId x_ = kNoSlot, h_ = kNoSlot, last_ = kNoSlot;
  SlotId q_ = kNoSlot, k_ = kNoSlot, v_ = kNoSlot, mixed_ = kNoSlot;
  SlotId decay_ = kNoSlot, beta_ = kNoSlot;
  SlotId router_logits_ = kNoSlot, experts_ = kNoSlot, expert_weights_ = kNoSlot, offsets_ = kNoSlot, order_ = kNoSlot;
  SlotId moe_h_ = kNoSlot, moe_y_ = kNoSlot, gate_ = kNoSlot, up_ = kNoSlot;
  SlotId q8_ = kNoSlot;         // one set of q8 rows, of whatever was quantized last
  SlotId quantized_ = kNoSlot;  // the slot whose present content q8_ holds; kNoSlot: of none
  // Made when first asked for.
  SlotId partials_ = kNoSlot;
  std::vector<std::pair<RopeSpec, SlotId>> rope_tables_;
};

template <class Args>
Status Lowering::emit(const Args& args, const char* phase_class, RowCount over) {
  if (Status ok = check(args); !ok) return ok;
  program().phases.push_back(make_phase(args, layer_, phase_class, over));
  visit_operands(args, [&](const OperandInfo& info, const auto& operand) {
    if (info.access != Access::read && operand.slot == quantized_) quantized_ = kNoSlot;
  });
  return {};
}

template <class Args>
Status Lowering::give_activations(Args& args, const MatrixWeight& weight, SlotId in, std::int32_t groups, const char* phase_class,
                                  RowCount over) {
  if (takes_q8(weight)) {
    PLUMB_ASSIGN(args.in_q8, quantized(in, weight.view.cols, groups, phase_class, over));
  } else {
    args.in = ref<const float>(in);
  }
  return {};
}

}  // namespace plumb::model::lowering
