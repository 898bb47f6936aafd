// Integer sums of a packed block on any AArch64: products of bytes in 16 bits, pairs of them added in 16 and then in 32.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// sums[r][h], lane i: the sum over k of row 4h + i's weight times code k of block b of x[r]. w as in q8_block.h. A pair is at
// most 2 * 128 * 127, which 16 bits hold.
template <int R>
inline void packed_sums(const int8x16_t (&w)[8][2], const Q8Block* const (&x)[R], std::int64_t b, int32x4_t (&sums)[R][2]) {
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    sums[r][0] = sums[r][1] = vdupq_n_s32(0);
#pragma GCC unroll 8
    for (int v = 0; v < 8; ++v) {
      std::int32_t four;
      std::memcpy(&four, x[r][b].codes + 4 * v, sizeof four);
      const int8x16_t codes = vreinterpretq_s8_s32(vdupq_n_s32(four));
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) {
        const int16x8_t pairs = vpaddq_s16(vmull_s8(vget_low_s8(w[v][h]), vget_low_s8(codes)), vmull_high_s8(w[v][h], codes));
        sums[r][h] = vpadalq_s16(sums[r][h], pairs);
      }
    }
  }
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
