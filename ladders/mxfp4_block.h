// The step that rungs of several ladders take: one block of eight packed MXFP4 rows times one block of q8 activations, with weights made
// unsigned by an offset and pairs kept in 16 bits (rung 4 of matmul_mxfp4 says why).
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/api/quantize.h"

namespace plumb::ladder {

inline __m256i four_bytes(const void* from) {
  std::int32_t bytes;
  std::memcpy(&bytes, from, sizeof bytes);
  return _mm256_set1_epi32(bytes);
}

// total += the products of a block of eight rows, 128 bytes of codes and 8 of scales, with x.
inline void add_block(const std::byte* data, const std::byte* scales, const kernels::Q8Block& x, __m256& total) {
  const __m256i values = _mm256_broadcastsi128_si256(_mm_setr_epi8(16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4));
  const __m256i low = _mm256_set1_epi8(15);
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i pairs = _mm256_slli_epi16(four_bytes(x.sums), 4);
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v) {
    const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data + 32 * v));
    const __m256i first = _mm256_shuffle_epi8(values, _mm256_and_si256(codes, low));
    const __m256i second = _mm256_shuffle_epi8(values, _mm256_and_si256(_mm256_srli_epi16(codes, 4), low));
    pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(first, four_bytes(x.codes + 4 * v)));
    pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(second, four_bytes(x.codes + 16 + 4 * v)));
  }
  const __m128i exponents = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(scales));
  const __m256 scale = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu8_epi32(exponents), 23));
  const __m256 sums = _mm256_cvtepi32_ps(_mm256_madd_epi16(pairs, ones));
  total = _mm256_fmadd_ps(_mm256_mul_ps(sums, _mm256_set1_ps(x.scale)), scale, total);
}

}  // namespace plumb::ladder
