// Sums of products of 16-bit words by vpmaddwd. Same names as portable/word_products.h.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

struct I32x8 {
  __m256i v;
};
inline I32x8 zero_sums() { return {_mm256_setzero_si256()}; }

inline __m256i widen(__m128i bytes) { return _mm256_cvtepi8_epi16(bytes); }
inline __m128i load_bytes(const std::byte* from) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)); }
inline void store_words(std::int16_t* to, __m256i x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), x); }
inline __m256i load_words(const std::int16_t* from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)); }

// Sixteen signed bytes as words.
inline void words16(const std::byte* from, std::int16_t* to) { store_words(to, widen(load_bytes(from))); }
// Sixteen bytes of two keys, element by element beside each other.
inline void pair16(const std::byte* a, const std::byte* b, std::int16_t* to) {
  store_words(to, widen(_mm_unpacklo_epi8(load_bytes(a), load_bytes(b))));
  store_words(to + 16, widen(_mm_unpackhi_epi8(load_bytes(a), load_bytes(b))));
}

// sums + sixteen products, in any lanes.
inline I32x8 add_products16(I32x8 sums, const std::int16_t* a, const std::int16_t* b) {
  return {_mm256_add_epi32(sums.v, _mm256_madd_epi16(load_words(a), load_words(b)))};
}
inline std::int32_t total(I32x8 sums) {
  __m128i x = _mm_add_epi32(_mm256_castsi256_si128(sums.v), _mm256_extracti128_si256(sums.v, 1));
  x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0x4E));
  return _mm_cvtsi128_si32(_mm_add_epi32(x, _mm_shuffle_epi32(x, 0xB1)));
}

// The weights of two keys.
struct WordPair {
  __m256i v;
};
inline WordPair word_pair(const std::int16_t* weights) {
  std::int32_t both;
  std::memcpy(&both, weights, 4);
  return {_mm256_set1_epi32(both)};
}
// sums + for each of eight elements of what pair16 wrote, weight times value of the one key and of the other.
inline I32x8 add_pair_products(I32x8 sums, WordPair weight, const std::int16_t* pair) {
  return {_mm256_add_epi32(sums.v, _mm256_madd_epi16(weight.v, load_words(pair)))};
}
inline F32x8 to_floats(I32x8 sums) { return {_mm256_cvtepi32_ps(sums.v)}; }

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
