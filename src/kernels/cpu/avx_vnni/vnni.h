// vpdpbusd and vpdpwssd in 256 bits, as AVX-VNNI encodes them.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// sums + the products of four unsigned bytes of w with the four signed ones at `codes`, in each lane; never saturates.
inline __m256i add_code_products(__m256i sums, __m256i w, const std::int8_t* codes) {
  std::int32_t four;
  std::memcpy(&four, codes, sizeof four);
  return _mm256_dpbusd_avx_epi32(sums, w, _mm256_set1_epi32(four));
}
// sums + the products of two signed words of w with two of x, in each lane.
inline __m256i add_word_products(__m256i sums, __m256i w, __m256i x) { return _mm256_dpwssd_avx_epi32(sums, w, x); }

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
