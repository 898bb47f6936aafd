// A group of eight rows of packed weights, walked block by block: the integer sums of each by the set's q8_block.h, scaled and added in f32.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// sums[r * stride + j] = x[r] . row (8 * group + j), for R rows and j < 8.
template <WeightFormat F, int R>
inline void q8_dot_group(const PackedRows& w, std::int64_t group, const Q8Block* const* x, float* sums, std::int64_t stride) {
  using Shape = PackedShape<F>;
  const std::int64_t blocks = w.cols / Shape::kElements;
  const std::byte* data = w.data + group * w.group_bytes;
  const std::byte* scales = w.scales + group * w.scale_group_bytes;
  const Q8Block* rows[R];
  F32x8 acc[R];
  for (int r = 0; r < R; ++r) {
    rows[r] = x[r];
    acc[r] = zero8();
  }
  if constexpr (R <= kReadAheadRows) read_ahead_scales<F>(scales, w);
  for (std::int64_t b = 0; b < blocks; ++b) {
    if constexpr (R <= kReadAheadRows) read_ahead<Shape::kBytes>(data + b * Shape::kBytes);
    PackedBlock<F>::template add<R>(data + b * Shape::kBytes, scales + b * Shape::kScaleBytes, rows, b * Shape::kParts, acc);
  }
  for (int r = 0; r < R; ++r) store8(sums + r * stride, acc[r]);
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
