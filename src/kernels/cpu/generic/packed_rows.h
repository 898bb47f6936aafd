// Where the rows of a packed weight lie.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// A block of eight rows: its elements of a row, its bytes, and those of its scales.
template <WeightFormat F>
struct PackedShape {
  static constexpr const WeightFormatTraits& kTraits = kWeightTraits[static_cast<std::size_t>(F)];
  static constexpr int kElements = kTraits.block;
  static constexpr int kParts = kTraits.block / kQ8Block;  // blocks of activations
  static constexpr int kBytes = 8 * kTraits.block_bytes;
  static constexpr int kScaleBytes = 8 * kTraits.scale_bytes;
};

// One matrix of a packed WeightView, by groups of eight rows.
struct PackedRows {
  const std::byte* data;
  const std::byte* scales;
  std::int64_t group_bytes;  // from group to group: more than a group has where matrices take turns (api/pack.h)
  std::int64_t scale_group_bytes;
  std::int64_t cols;
  float factor;  // of all weights

  PackedRows(const WeightView& w, std::int64_t expert)
      : data(w.data.get() + expert * w.expert_stride), scales(w.scales.get() + expert * w.scale_expert_stride),
        group_bytes(8 * w.row_stride), scale_group_bytes(8 * w.scale_row_stride), cols(w.cols), factor(w.factors ? w.factors[expert] : 1.0F) {}
};

template <int Bytes>
[[gnu::always_inline]] inline void read_ahead(const std::byte* block) {
  ask_for_lines<1>(block + kReadAhead, Bytes);
}
// The same for scales, those of the next group while a group begins: they are one line in many, too few to be found by the processor.
template <WeightFormat F>
[[gnu::always_inline]] inline void read_ahead_scales(const std::byte* scales, const PackedRows& w) {
  ask_for_lines<1>(scales + w.scale_group_bytes, w.cols / PackedShape<F>::kElements * PackedShape<F>::kScaleBytes);
}

// Calls run<rows>(), 1 <= rows <= 8: the kernels of a tile know how many rows it has when they are compiled.
template <class Run>
inline void with_row_count(int rows, Run&& run) {
  switch (rows) {
    case 1: return run.template operator()<1>();
    case 2: return run.template operator()<2>();
    case 3: return run.template operator()<3>();
    case 4: return run.template operator()<4>();
    case 5: return run.template operator()<5>();
    case 6: return run.template operator()<6>();
    case 7: return run.template operator()<7>();
    case 8: return run.template operator()<8>();
  }
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
