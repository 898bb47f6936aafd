// Integer sums of a packed block with sdot, row by row. Included after dotprod_row.h.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// As in neon_sums.h.
template <int R>
inline void packed_sums(const int8x16_t (&w)[8][2], const Q8Block* const (&x)[R], std::int64_t b, int32x4_t (&sums)[R][2]) {
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) packed_sums_of_row(w, x[r][b], sums[r]);
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
