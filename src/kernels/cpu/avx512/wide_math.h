// Sixteen floats: what exp_lanes (generic/math.h) and weigh (generic/attention_chunk.h) need beside the compiler's own arithmetic of vectors.
// min8 and max8 keep their names, which those use for vectors of either width. Included before math.h, whose template must see these.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

inline __m512 every(__m512, float x) { return _mm512_set1_ps(x); }
inline __m512 mul_add(__m512 a, __m512 b, __m512 c) { return _mm512_fmadd_ps(a, b, c); }
inline __m512 min8(__m512 a, __m512 b) { return _mm512_min_ps(a, b); }
inline __m512 max8(__m512 a, __m512 b) { return _mm512_max_ps(a, b); }
inline __m512 if_less(__m512 a, __m512 b, __m512 yes, __m512 no) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
}
inline __m512 times_pow2(__m512 x, __m512 shifted) {
  const __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(shifted), 23);
  return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x), exponent));
}

// What weigh() walks scores by: vectors of sixteen, whose halves join the eight chains of a sum one after the other.
using Scores = __m512;
inline constexpr int kScoreLanes = 16;
inline Scores load_scores(const float* from) { return _mm512_loadu_ps(from); }
inline void store_scores(float* to, Scores x) { _mm512_storeu_ps(to, x); }
inline F32x8 add_scores(F32x8 sum, Scores x) { return sum + F32x8{_mm512_castps512_ps256(x)} + F32x8{_mm512_extractf32x8_ps(x, 1)}; }
inline float largest_score(Scores x) { return max_of(max8(F32x8{_mm512_castps512_ps256(x)}, F32x8{_mm512_extractf32x8_ps(x, 1)})); }

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
