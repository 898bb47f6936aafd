// Sixteen floats, with the operations of simd.h that exp_lanes (generic/math.h) and weigh (generic/attention_chunk.h) need. min8 and max8 keep
// their names, which those use for vectors of either width.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

struct F32x16 {
  __m512 v;
};

template <class V>
inline V every(float x);
template <>
inline F32x16 every<F32x16>(float x) {
  return {_mm512_set1_ps(x)};
}
inline F32x16 operator+(F32x16 a, F32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
inline F32x16 operator-(F32x16 a, F32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline F32x16 operator*(F32x16 a, F32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline F32x16 operator/(F32x16 a, F32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
inline F32x16 mul_add(F32x16 a, F32x16 b, F32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline F32x16 min8(F32x16 a, F32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }
inline F32x16 max8(F32x16 a, F32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
inline F32x16 if_less(F32x16 a, F32x16 b, F32x16 yes, F32x16 no) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), no.v, yes.v)};
}
inline F32x16 times_pow2(F32x16 x, F32x16 shifted) {
  const __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(shifted.v), 23);
  return {_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x.v), exponent))};
}

// What weigh() walks scores by: vectors of sixteen, whose halves join the eight chains of a sum one after the other.
using Scores = F32x16;
inline constexpr int kScoreLanes = 16;
inline Scores load_scores(const float* from) { return {_mm512_loadu_ps(from)}; }
inline void store_scores(float* to, Scores x) { _mm512_storeu_ps(to, x.v); }
inline F32x8 add_scores(F32x8 sum, Scores x) { return sum + F32x8{_mm512_castps512_ps256(x.v)} + F32x8{_mm512_extractf32x8_ps(x.v, 1)}; }
inline float largest_score(Scores x) { return max_of(max8(F32x8{_mm512_castps512_ps256(x.v)}, F32x8{_mm512_extractf32x8_ps(x.v, 1)})); }

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
