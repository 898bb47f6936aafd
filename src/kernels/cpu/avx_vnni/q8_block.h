// Integer dot products of a packed block (eight rows, 32 elements) with q8 activations by vpdpbusd in 256 bits (vnni.h of the set). Same names
// as avx2/q8_block.h and the same bits; the arithmetic is that of avx512/wide_dot.h in half the width.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// Four neighbouring bytes in every lane.
inline __m256i four_bytes(const void* from) {
  std::int32_t four;
  std::memcpy(&four, from, sizeof four);
  return _mm256_set1_epi32(four);
}
inline __m256i load_32_bytes(const std::byte* from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)); }
inline __m256 f16_scales(const std::byte* scales) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(scales))); }

// Adds the products of block b of R rows of activations with weights w[k / 4] - offset, w unsigned.
template <int R>
inline void add_offset_products(const __m256i (&w)[8], int offset, __m256 scales, const Q8Block* const (&x)[R], std::int64_t b,
                                F32x8 (&acc)[R]) {
  const __m256i offsets = _mm256_set1_epi16(static_cast<short>(offset));
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    const Q8Block& block = x[r][b];
    __m256i sums = add_word_products(_mm256_setzero_si256(), offsets, four_bytes(block.sums));
    if constexpr (R <= 2) {  // a chain of eight is waited for where few rows are in flight
      __m256i upper = _mm256_setzero_si256();
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) {
        sums = add_code_products(sums, w[v], block.codes + 4 * v);
        upper = add_code_products(upper, w[v + 4], block.codes + 4 * (v + 4));
      }
      sums = _mm256_add_epi32(sums, upper);
    } else {
#pragma GCC unroll 8
      for (int v = 0; v < 8; ++v) sums = add_code_products(sums, w[v], block.codes + 4 * v);
    }
    const __m256 scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(sums), _mm256_set1_ps(block.scale));
    acc[r].v = _mm256_fmadd_ps(scaled, scales, acc[r].v);
  }
}

// w[v] and w[v + 4] from the low and the high nibbles of vector v. Block::value turns nibbles into weights.
template <class Block>
inline void nibble_weights(const std::byte* data, __m256i (&w)[8]) {
  const __m256i low = _mm256_set1_epi8(15);
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v) {
    const __m256i codes = load_32_bytes(data + 32 * v);
    w[v] = Block::value(_mm256_and_si256(codes, low));
    w[v + 4] = Block::value(_mm256_and_si256(_mm256_srli_epi16(codes, 4), low));
  }
}

// A block of eight packed rows. `add` adds its products with block b of R rows of activations to acc[r], in one rounding order
// whatever R is.
template <WeightFormat F>
struct PackedBlock;

template <>
struct PackedBlock<WeightFormat::mxfp4_r8> {
  // E2M1 doubled, plus 16.
  static __m256i value(__m256i nibbles) {
    return _mm256_shuffle_epi8(
        _mm256_broadcastsi128_si256(_mm_setr_epi8(16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4)), nibbles);
  }
  template <int R>
  static void add(const std::byte* data, const std::byte* scales, const Q8Block* const (&x)[R], std::int64_t b, F32x8 (&acc)[R]) {
    __m256i w[8];
    nibble_weights<PackedBlock>(data, w);
    const __m128i exponents = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(scales));
    const __m256 factors = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu8_epi32(exponents), 23));
    add_offset_products<R>(w, 16, factors, x, b, acc);
  }
};

template <>
struct PackedBlock<WeightFormat::q4_0_r8> {
  static __m256i value(__m256i nibbles) { return nibbles; }
  template <int R>
  static void add(const std::byte* data, const std::byte* scales, const Q8Block* const (&x)[R], std::int64_t b, F32x8 (&acc)[R]) {
    __m256i w[8];
    nibble_weights<PackedBlock>(data, w);
    add_offset_products<R>(w, 8, f16_scales(scales), x, b, acc);
  }
};

template <>
struct PackedBlock<WeightFormat::q8_0_r8> {
  template <int R>
  static void add(const std::byte* data, const std::byte* scales, const Q8Block* const (&x)[R], std::int64_t b, F32x8 (&acc)[R]) {
    __m256i w[8];
#pragma GCC unroll 8
    for (int v = 0; v < 8; ++v) w[v] = _mm256_xor_si256(load_32_bytes(data + 32 * v), _mm256_set1_epi8(-128));
    add_offset_products<R>(w, 128, f16_scales(scales), x, b, acc);
  }
};

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
