// Eight floats in two NEON registers, with fused multiply-add. Same names as portable/simd.h, and the same bits as avx2/simd.h:
// what is fused and the order of every sum are the same. Included by kernel bodies only, after prelude.h.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// The register tile of the matrix product: 4 x 2 accumulators of two registers, 2 weights and 1 activation are 22 of 32.
inline constexpr int kTileRows = 4;
inline constexpr int kTileOutputs = 2;

struct F32x8 {
  float32x4_t lo, hi;
};

inline F32x8 load8(const void* from) {
  const auto* f = static_cast<const float*>(from);
  return {vld1q_f32(f), vld1q_f32(f + 4)};
}
inline void store8(float* to, F32x8 x) {
  vst1q_f32(to, x.lo);
  vst1q_f32(to + 4, x.hi);
}
inline F32x8 splat(float x) { return {vdupq_n_f32(x), vdupq_n_f32(x)}; }
inline F32x8 zero8() { return splat(0); }

// The first n floats, the rest zero; reads nothing beyond them. 0 <= n <= 8.
inline F32x8 load_first(const float* from, int n) {
  float lanes[8] = {};
  for (int i = 0; i < n; ++i) lanes[i] = from[i];
  return load8(lanes);
}
inline void store_first(float* to, F32x8 x, int n) {
  float lanes[8];
  store8(lanes, x);
  for (int i = 0; i < n; ++i) to[i] = lanes[i];
}

inline F32x8 operator+(F32x8 a, F32x8 b) { return {vaddq_f32(a.lo, b.lo), vaddq_f32(a.hi, b.hi)}; }
inline F32x8 operator-(F32x8 a, F32x8 b) { return {vsubq_f32(a.lo, b.lo), vsubq_f32(a.hi, b.hi)}; }
inline F32x8 operator*(F32x8 a, F32x8 b) { return {vmulq_f32(a.lo, b.lo), vmulq_f32(a.hi, b.hi)}; }
inline F32x8 operator/(F32x8 a, F32x8 b) { return {vdivq_f32(a.lo, b.lo), vdivq_f32(a.hi, b.hi)}; }
// a * b + c
inline F32x8 mul_add(F32x8 a, F32x8 b, F32x8 c) { return {vfmaq_f32(c.lo, a.lo, b.lo), vfmaq_f32(c.hi, a.hi, b.hi)}; }
// yes where a < b, no elsewhere (and where either is NaN).
inline F32x8 if_less(F32x8 a, F32x8 b, F32x8 yes, F32x8 no) {
  return {vbslq_f32(vcltq_f32(a.lo, b.lo), yes.lo, no.lo), vbslq_f32(vcltq_f32(a.hi, b.hi), yes.hi, no.hi)};
}
// b where either is NaN, which the machine's own minimum is not.
inline F32x8 min8(F32x8 a, F32x8 b) { return if_less(a, b, a, b); }
inline F32x8 max8(F32x8 a, F32x8 b) { return if_less(b, a, a, b); }
// Is any lane of a at least b's? A NaN is not.
inline bool any_at_least(F32x8 a, F32x8 b) {
  return vmaxvq_u32(vorrq_u32(vcgeq_f32(a.lo, b.lo), vcgeq_f32(a.hi, b.hi))) != 0;
}
// x * 2^n, exactly, for integral n with |n| <= 127 and x * 2^n normal. n is the low bits of `shifted` (generic/math.h).
inline float32x4_t times_pow2(float32x4_t x, float32x4_t shifted) {
  return vreinterpretq_f32_u32(vaddq_u32(vreinterpretq_u32_f32(x), vshlq_n_u32(vreinterpretq_u32_f32(shifted), 23)));
}
inline F32x8 times_pow2(F32x8 x, F32x8 shifted) { return {times_pow2(x.lo, shifted.lo), times_pow2(x.hi, shifted.hi)}; }

// Running sums in double, in each lane.
struct F64Sums {
  float64x2_t lanes[4] = {vdupq_n_f64(0), vdupq_n_f64(0), vdupq_n_f64(0), vdupq_n_f64(0)};

  void add(F32x8 x) {
    lanes[0] = vaddq_f64(lanes[0], vcvt_f64_f32(vget_low_f32(x.lo)));
    lanes[1] = vaddq_f64(lanes[1], vcvt_high_f64_f32(x.lo));
    lanes[2] = vaddq_f64(lanes[2], vcvt_f64_f32(vget_low_f32(x.hi)));
    lanes[3] = vaddq_f64(lanes[3], vcvt_high_f64_f32(x.hi));
  }
  // ((l0 + l4) + (l1 + l5)) + ((l2 + l6) + (l3 + l7))
  double total() const { return vaddvq_f64(vaddq_f64(lanes[0], lanes[2])) + vaddvq_f64(vaddq_f64(lanes[1], lanes[3])); }
};

// ((l0 + l1) + (l2 + l3)) + ((l4 + l5) + (l6 + l7)): the one order of a horizontal sum.
inline void sum8x4(F32x8 a, F32x8 b, F32x8 c, F32x8 d, float* out) {
  const float32x4_t lo = vpaddq_f32(vpaddq_f32(a.lo, b.lo), vpaddq_f32(c.lo, d.lo));
  const float32x4_t hi = vpaddq_f32(vpaddq_f32(a.hi, b.hi), vpaddq_f32(c.hi, d.hi));
  vst1q_f32(out, vaddq_f32(lo, hi));
}
inline float sum8(F32x8 x) {
  const float32x4_t pairs = vpaddq_f32(x.lo, x.hi);  // l0 + l1, l2 + l3, l4 + l5, l6 + l7
  return vaddv_f32(vpadd_f32(vget_low_f32(pairs), vget_high_f32(pairs)));
}
// As avx2's, of a NaN too: the second of two that do not compare.
inline float max_of(F32x8 x) {
  const auto larger = [](float32x4_t a, float32x4_t b) { return vbslq_f32(vcgtq_f32(a, b), a, b); };
  float32x4_t m = larger(x.lo, x.hi);
  m = larger(m, vextq_f32(m, m, 2));
  return vgetq_lane_f32(larger(m, vdupq_laneq_f32(m, 1)), 0);
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
