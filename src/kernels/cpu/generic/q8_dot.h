// Products of q8 activations with the rows of packed weights, eight outputs at a time. A set with wider vectors has a q8_dot.h of its own with
// the same names and the same bits.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// Rows of activations that share one decoding of a block. With eight, decoding is an eighth of the work that is left.
inline constexpr int kQ8TileRows = 8;

template <WeightFormat F, int R>
void q8_dot_rows(const PackedRows& w, std::int64_t first, int groups, const Q8Block* const* x, float* sums, std::int64_t stride) {
  for (int g = 0; g < groups; ++g) q8_dot_group<F, R>(w, first + g, x, sums + 8 * g, stride);
}

// sums[r * stride + j] = x[r] . row (8 * first + j), r < rows, j < 8 * groups. REQUIRES: 1 <= rows <= kQ8TileRows.
template <WeightFormat F>
void q8_dot(const PackedRows& w, std::int64_t first, int groups, const Q8Block* const* x, int rows, float* sums, std::int64_t stride) {
  with_row_count(rows, [&]<int R>() { q8_dot_rows<F, R>(w, first, groups, x, sums, stride); });
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
