// Eight floats in one AVX2 register, with fused multiply-add. Same names as portable/simd.h. Included by kernel bodies only,
// after prelude.h and inside the target pragma.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// The register tile of the matrix product: 4 x 3 accumulators, 3 weights and 1 activation are 16 registers. 12 fused
// operations need 7 loads, so both FMA ports stay busy; 6 x 2 needs 8.
inline constexpr int kTileRows = 4;
inline constexpr int kTileOutputs = 3;

struct F32x8 {
  __m256 v;
};

inline F32x8 load8(const void* from) { return {_mm256_loadu_ps(static_cast<const float*>(from))}; }
inline void store8(float* to, F32x8 x) { _mm256_storeu_ps(to, x.v); }
inline F32x8 splat(float x) { return {_mm256_set1_ps(x)}; }
inline F32x8 zero8() { return {_mm256_setzero_ps()}; }

// Lanes [0, n) are selected. 0 <= n <= 8.
inline __m256i first_lanes(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
// The first n floats, the rest zero; reads nothing beyond them.
inline F32x8 load_first(const float* from, int n) { return {_mm256_maskload_ps(from, first_lanes(n))}; }
inline void store_first(float* to, F32x8 x, int n) { _mm256_maskstore_ps(to, first_lanes(n), x.v); }

inline F32x8 operator+(F32x8 a, F32x8 b) { return {_mm256_add_ps(a.v, b.v)}; }
inline F32x8 operator-(F32x8 a, F32x8 b) { return {_mm256_sub_ps(a.v, b.v)}; }
inline F32x8 operator*(F32x8 a, F32x8 b) { return {_mm256_mul_ps(a.v, b.v)}; }
inline F32x8 operator/(F32x8 a, F32x8 b) { return {_mm256_div_ps(a.v, b.v)}; }
// a * b + c
inline F32x8 mul_add(F32x8 a, F32x8 b, F32x8 c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
// b where either is NaN.
inline F32x8 min8(F32x8 a, F32x8 b) { return {_mm256_min_ps(a.v, b.v)}; }
inline F32x8 max8(F32x8 a, F32x8 b) { return {_mm256_max_ps(a.v, b.v)}; }
// yes where a < b, no elsewhere (and where either is NaN).
inline F32x8 if_less(F32x8 a, F32x8 b, F32x8 yes, F32x8 no) {
  return {_mm256_blendv_ps(no.v, yes.v, _mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ))};
}
// Is any lane of a at least b's? A NaN is not.
inline bool any_at_least(F32x8 a, F32x8 b) { return _mm256_movemask_ps(_mm256_cmp_ps(a.v, b.v, _CMP_GE_OQ)) != 0; }
// x * 2^n, exactly, for integral n with |n| <= 127 and x * 2^n normal. n is the low bits of `shifted` (generic/math.h).
inline F32x8 times_pow2(F32x8 x, F32x8 shifted) {
  const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(shifted.v), 23);
  return {_mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x.v), exponent))};
}

// Running sums in double: lanes 0..3 and 4..7.
struct F64Sums {
  __m256d lo;
  __m256d hi;

  F64Sums() : lo(_mm256_setzero_pd()), hi(_mm256_setzero_pd()) {}  // written out: an implicit one misses the target pragma
  void add(F32x8 x) {
    lo = _mm256_add_pd(lo, _mm256_cvtps_pd(_mm256_castps256_ps128(x.v)));
    hi = _mm256_add_pd(hi, _mm256_cvtps_pd(_mm256_extractf128_ps(x.v, 1)));
  }
  double total() const {
    double lanes[4];
    _mm256_storeu_pd(lanes, _mm256_add_pd(lo, hi));
    return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
  }
};

// ((l0 + l1) + (l2 + l3)) + ((l4 + l5) + (l6 + l7)): the one order of a horizontal sum.
inline void sum8x4(F32x8 a, F32x8 b, F32x8 c, F32x8 d, float* out) {
  const __m256 ab = _mm256_hadd_ps(a.v, b.v);
  const __m256 cd = _mm256_hadd_ps(c.v, d.v);
  const __m256 halves = _mm256_hadd_ps(ab, cd);
  _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(halves), _mm256_extractf128_ps(halves, 1)));
}
inline float sum8(F32x8 x) {
  __m256 pairs = _mm256_hadd_ps(x.v, x.v);
  pairs = _mm256_hadd_ps(pairs, pairs);
  return _mm_cvtss_f32(_mm_add_ss(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1)));
}
inline float max_of(F32x8 x) {
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(x.v), _mm256_extractf128_ps(x.v, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_max_ss(m, _mm_shuffle_ps(m, m, 1)));
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
