// Integer sums of a packed block with smmla, two rows of activations at a time; a last odd row by sdot. Included after
// dotprod_row.h.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// Eight neighbouring elements of two vectors, one after the other.
inline int8x16_t low_eights(int8x16_t a, int8x16_t b) {
  return vreinterpretq_s8_s64(vzip1q_s64(vreinterpretq_s64_s8(a), vreinterpretq_s64_s8(b)));
}
inline int8x16_t high_eights(int8x16_t a, int8x16_t b) {
  return vreinterpretq_s8_s64(vzip2q_s64(vreinterpretq_s64_s8(a), vreinterpretq_s64_s8(b)));
}
inline int32x4_t low_pairs(int32x4_t a, int32x4_t b) {
  return vreinterpretq_s32_s64(vzip1q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)));
}
inline int32x4_t high_pairs(int32x4_t a, int32x4_t b) {
  return vreinterpretq_s32_s64(vzip2q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)));
}

// As packed_sums of neon_sums.h. smmla multiplies 2 x 8 bytes by 8 x 2: rows 2q and 2q + 1 of the weights, eight elements each, are one
// operand, made of two vectors of the layout once for all rows of activations.
template <int R>
inline void packed_sums(const int8x16_t (&w)[8][2], const Q8Block* const (&x)[R], std::int64_t b, int32x4_t (&sums)[R][2]) {
  if constexpr (R >= 2) {
    int8x16_t rows[4][4];  // [eight elements][q]
#pragma GCC unroll 4
    for (int p = 0; p < 4; ++p) {
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) {
        const int32x4_t first = vreinterpretq_s32_s8(w[2 * p][h]);
        const int32x4_t second = vreinterpretq_s32_s8(w[2 * p + 1][h]);
        rows[p][2 * h] = vreinterpretq_s8_s32(vzip1q_s32(first, second));
        rows[p][2 * h + 1] = vreinterpretq_s8_s32(vzip2q_s32(first, second));
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r + 2 <= R; r += 2) {
      const std::int8_t* one = x[r][b].codes;
      const std::int8_t* two = x[r + 1][b].codes;
      const int8x16_t lo[2] = {vld1q_s8(one), vld1q_s8(two)};
      const int8x16_t hi[2] = {vld1q_s8(one + 16), vld1q_s8(two + 16)};
      const int8x16_t codes[4] = {low_eights(lo[0], lo[1]), high_eights(lo[0], lo[1]), low_eights(hi[0], hi[1]), high_eights(hi[0], hi[1])};
      int32x4_t acc[4];  // [q]: row r by weights 2q, 2q + 1, then row r + 1
#pragma GCC unroll 4
      for (int q = 0; q < 4; ++q) {
        acc[q] = vdupq_n_s32(0);
#pragma GCC unroll 4
        for (int p = 0; p < 4; ++p) acc[q] = vmmlaq_s32(acc[q], codes[p], rows[p][q]);
      }
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) {
        sums[r][h] = low_pairs(acc[2 * h], acc[2 * h + 1]);
        sums[r + 1][h] = high_pairs(acc[2 * h], acc[2 * h + 1]);
      }
    }
  }
  if constexpr (R % 2 == 1) packed_sums_of_row(w, x[R - 1][b], sums[R - 1]);
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
