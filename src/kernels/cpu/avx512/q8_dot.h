// The products of packed weights of a task, by vectors of sixteen outputs. Same names as generic/q8_dot.h.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// Rows of activations that share one decoding of a block: eight weights, eight accumulators and what they need fit in 32 registers.
inline constexpr int kQ8TileRows = 8;

template <WeightFormat F>
void q8_dot(const PackedRows& w, std::int64_t first, int groups, const Q8Block* const* x, int rows, float* sums, std::int64_t stride) {
  q8_wide_dot<F>(w, first, groups, x, rows, sums, stride);
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
