// Integer sums of a packed block and one row of activations with sdot: four products of bytes into each 32-bit lane, the layout's own shape.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// As in neon_sums.h. The lane that holds an element's four codes is part of the instruction, so a row of activations is two loads.
inline void packed_sums_of_row(const int8x16_t (&w)[8][2], const Q8Block& block, int32x4_t (&sums)[2]) {
  const int8x16_t lo = vld1q_s8(block.codes);
  const int8x16_t hi = vld1q_s8(block.codes + 16);
#pragma GCC unroll 2
  for (int h = 0; h < 2; ++h) {
    int32x4_t a = vdupq_n_s32(0);
    int32x4_t b = vdupq_n_s32(0);  // two chains
    a = vdotq_laneq_s32(a, w[0][h], lo, 0);
    b = vdotq_laneq_s32(b, w[1][h], lo, 1);
    a = vdotq_laneq_s32(a, w[2][h], lo, 2);
    b = vdotq_laneq_s32(b, w[3][h], lo, 3);
    a = vdotq_laneq_s32(a, w[4][h], hi, 0);
    b = vdotq_laneq_s32(b, w[5][h], hi, 1);
    a = vdotq_laneq_s32(a, w[6][h], hi, 2);
    b = vdotq_laneq_s32(b, w[7][h], hi, 3);
    sums[h] = vaddq_s32(a, b);
  }
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
