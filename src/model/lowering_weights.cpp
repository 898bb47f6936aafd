// The weights of a model, placed in slots and packed where they are multiplied by q8 rows, and the products with them.
#include <utility>

#include "model/lowering.h"

namespace plumb::model::lowering {
namespace {

// Of all matrices that share a slot. Codes are whole vectors of 32 bytes, so scales may follow them.
struct PackedBytes {
  std::uint64_t codes;
  std::uint64_t scales;
};
PackedBytes packed_bytes(const WeightView& stored, std::int32_t interleaved) {
  const WeightView to = packed_shape(stored, interleaved);
  return {static_cast<std::uint64_t>(to.experts * to.expert_stride), static_cast<std::uint64_t>(to.experts * to.scale_expert_stride)};
}

}  // namespace

WeightView Lowering::place(const MatrixWeight& w, bool load_only) {
  WeightView view = w.view;
  view.data = ref<const std::byte>(weight_slot(w.name, w.data, load_only), w.data_offset);
  if (!w.scales.empty()) {
    view.scales = ref<const std::byte>(weight_slot(w.name + ".scales", w.scales, load_only), w.scales_offset);
  }
  return view;
}

Ref<const float> Lowering::place(VectorWeight&& w) {
  if (w.empty()) return {};
  out_.constants.push_back(std::move(w.values));
  const auto bytes = std::as_bytes(std::span(out_.constants.back()));
  const SlotId slot = program().add_slot(w.name, SlotKind::weight, bytes.size());
  out_.weights.push_back({.slot = slot, .bytes = bytes});
  return ref<const float>(slot);
}

SlotId Lowering::weight_slot(const std::string& name, std::span<const std::byte> bytes, bool load_only) {
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

WeightView Lowering::place_whole(const MatrixWeight& w) {
  WeightView view = place(w);
  view.factors = place(VectorWeight(w.factors));
  return view;
}

Result<WeightView> Lowering::operand(const MatrixWeight& w) {
  if (!takes_q8(w)) return place_whole(w);
  const PackedBytes bytes = packed_bytes(w.view, 1);
  const SlotId slot = program().add_slot(w.name + ".packed", SlotKind::weight, bytes.codes + bytes.scales);
  out_.weights.push_back({.slot = slot, .packed = true});
  return packed(w, slot, bytes.codes, 1, 0);
}

Result<std::pair<WeightView, WeightView>> Lowering::operands(const MatrixWeight& a, const MatrixWeight& b) {
  const bool alike = a.view.format == b.view.format && a.view.rows == b.view.rows && a.view.cols == b.view.cols && a.view.experts == b.view.experts;
  std::pair<WeightView, WeightView> views;
  if (!takes_q8(a) || !alike) {
    PLUMB_ASSIGN(views.first, operand(a));
    PLUMB_ASSIGN(views.second, operand(b));
    return views;
  }
  const PackedBytes bytes = packed_bytes(a.view, 2);
  const SlotId slot = program().add_slot(a.name + "+" + b.name + ".packed", SlotKind::weight, bytes.codes + bytes.scales);
  out_.weights.push_back({.slot = slot, .packed = true});
  PLUMB_ASSIGN(views.first, packed(a, slot, bytes.codes, 2, 0));
  PLUMB_ASSIGN(views.second, packed(b, slot, bytes.codes, 2, 1));
  return views;
}

Result<WeightView> Lowering::packed(const MatrixWeight& w, SlotId slot, std::uint64_t scales_at, std::int32_t interleaved, std::int32_t turn) {
  WeightView to = packed_shape(w.view, interleaved);
  const auto group = static_cast<std::int64_t>(traits(to.format).group);
  const auto offset = static_cast<std::uint64_t>(turn * group * to.row_stride / interleaved);
  const auto scales_offset = scales_at + static_cast<std::uint64_t>(turn * group * to.scale_row_stride / interleaved);
  const PackArgs pack{.data = ref<std::byte>(slot, offset),
                      .scales = ref<std::byte>(slot, scales_offset),
                      .from = place(w, true),
                      .interleaved = interleaved,
                      .rows = w.view.experts};
  if (Status ok = check(pack); !ok) return ok.error();
  program().load.push_back(make_phase(pack, layer_, "load"));
  to.data = ref<const std::byte>(slot, offset);
  to.scales = ref<const std::byte>(slot, scales_offset);
  to.factors = place(VectorWeight(w.factors));
  return to;
}

Result<Ref<const std::byte>> Lowering::quantized(SlotId in, std::int32_t cols, std::int32_t groups, const char* phase_class,
                                                 RowCount over) {
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

Status Lowering::project(SlotId out, SlotId in, const MatrixWeight& weight, VectorWeight&& bias, const char* phase_class,
                         bool accumulate, RowCount over) {
  MatmulArgs args{.out = ref<float>(out),
                  .bias = place(std::move(bias)),
                  .accumulate = accumulate ? 1 : 0,
                  .rows = over == RowCount::rows ? limits_.max_rows : limits_.max_logit_rows};
  PLUMB_TRY(give_activations(args, weight, in, 1, phase_class, over));
  PLUMB_ASSIGN(args.weight, operand(weight));
  return emit(args, phase_class, over);
}

}  // namespace plumb::model::lowering
