// Sums of products of 16-bit words by widening multiply-adds. Same names as portable/word_products.h.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

struct I32x8 {
  int32x4_t lo, hi;
};
inline I32x8 zero_sums() { return {vdupq_n_s32(0), vdupq_n_s32(0)}; }

inline int8x16_t load_bytes(const std::byte* from) { return vld1q_s8(reinterpret_cast<const std::int8_t*>(from)); }

// Sixteen signed bytes as words.
inline void words16(const std::byte* from, std::int16_t* to) {
  const int8x16_t x = load_bytes(from);
  vst1q_s16(to, vmovl_s8(vget_low_s8(x)));
  vst1q_s16(to + 8, vmovl_high_s8(x));
}
// Sixteen bytes of two keys: eight of the one, eight of the other, and the next eight of both.
inline void pair16(const std::byte* a, const std::byte* b, std::int16_t* to) {
  const int8x16_t x = load_bytes(a);
  const int8x16_t y = load_bytes(b);
  vst1q_s16(to, vmovl_s8(vget_low_s8(x)));
  vst1q_s16(to + 8, vmovl_s8(vget_low_s8(y)));
  vst1q_s16(to + 16, vmovl_high_s8(x));
  vst1q_s16(to + 24, vmovl_high_s8(y));
}

// sums + sixteen products, in any lanes.
inline I32x8 add_products16(I32x8 sums, const std::int16_t* a, const std::int16_t* b) {
  for (int i = 0; i < 16; i += 8) {
    const int16x8_t x = vld1q_s16(a + i);
    const int16x8_t y = vld1q_s16(b + i);
    sums.lo = vmlal_s16(sums.lo, vget_low_s16(x), vget_low_s16(y));
    sums.hi = vmlal_high_s16(sums.hi, x, y);
  }
  return sums;
}
inline std::int32_t total(I32x8 sums) { return vaddvq_s32(vaddq_s32(sums.lo, sums.hi)); }

// The weights of two keys.
struct WordPair {
  int16x4_t v;
};
inline WordPair word_pair(const std::int16_t* weights) {
  std::int32_t both;
  std::memcpy(&both, weights, 4);
  return {vreinterpret_s16_s32(vdup_n_s32(both))};
}
// sums + for each of eight elements of what pair16 wrote, weight times value of the one key and of the other.
inline I32x8 add_pair_products(I32x8 sums, WordPair weight, const std::int16_t* pair) {
  const int16x8_t x = vld1q_s16(pair);
  const int16x8_t y = vld1q_s16(pair + 8);
  sums.lo = vmlal_lane_s16(sums.lo, vget_low_s16(x), weight.v, 0);
  sums.hi = vmlal_high_lane_s16(sums.hi, x, weight.v, 0);
  sums.lo = vmlal_lane_s16(sums.lo, vget_low_s16(y), weight.v, 1);
  sums.hi = vmlal_high_lane_s16(sums.hi, y, weight.v, 1);
  return sums;
}
inline F32x8 to_floats(I32x8 sums) { return {vcvtq_f32_s32(sums.lo), vcvtq_f32_s32(sums.hi)}; }

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
