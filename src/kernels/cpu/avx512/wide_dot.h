// Products of q8 activations with packed weights, sixteen outputs at a time: two groups of eight rows side by side in a 512-bit
// vector. The same integers and the same f32 steps in every lane as the sets with eight lanes, so the same bits.
//
// vpdpbusd adds four products of an unsigned with a signed byte to a 32-bit lane and never saturates. Weights become unsigned by an
// offset; starting each sum at offset * (minus the sum of the codes), one vpdpwssd, takes it out again. The codes are the
// instruction's broadcast operand (vnni.h): the sums of a row of activations cost nine instructions a block and no load of their own.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// 32 bytes of a and 32 of b.
inline __m512i two_halves(const std::byte* a, const std::byte* b) {
  const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(a));
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b)), 1);
}
// Four neighbouring bytes in every lane.
inline __m512i four_bytes_wide(const void* from) {
  std::int32_t four;
  std::memcpy(&four, from, sizeof four);
  return _mm512_set1_epi32(four);
}
inline __m512 two_f16_scales(const std::byte* a, const std::byte* b) {
  const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(a));
  return _mm512_cvtph_ps(_mm256_inserti128_si256(_mm256_castsi128_si256(low), _mm_loadu_si128(reinterpret_cast<const __m128i*>(b)), 1));
}

// A block of two groups, a and b. `weights`: w[k / 4] lane j holds row j's weights 4 (k / 4)..4 (k / 4) + 3, plus kOffset, unsigned.
// `factors`: the sixteen scales.
template <WeightFormat F>
struct WideBlock;

// w[v] and w[v + 4] from the low and the high nibbles of vector v. Block::value turns nibbles into weights. (No lambdas: their bodies
// miss the target pragma.)
template <class Block>
inline void wide_nibbles(const std::byte* a, const std::byte* b, __m512i (&w)[8]) {
  const __m512i low = _mm512_set1_epi8(15);
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v) {
    const __m512i codes = two_halves(a + 32 * v, b + 32 * v);
    w[v] = Block::value(_mm512_and_si512(codes, low));
    w[v + 4] = Block::value(_mm512_and_si512(_mm512_srli_epi16(codes, 4), low));
  }
}

template <>
struct WideBlock<WeightFormat::mxfp4_r8> {
  static constexpr int kOffset = 16;
  // E2M1 doubled, plus 16.
  static __m512i value(__m512i nibbles) {
    return _mm512_shuffle_epi8(
        _mm512_broadcast_i32x4(_mm_setr_epi8(16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4)), nibbles);
  }
  static void weights(const std::byte* a, const std::byte* b, __m512i (&w)[8]) { wide_nibbles<WideBlock>(a, b, w); }
  static __m512 factors(const std::byte* a, const std::byte* b) {
    const __m128i low = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(a));
    const __m128i both = _mm_unpacklo_epi64(low, _mm_loadl_epi64(reinterpret_cast<const __m128i*>(b)));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu8_epi32(both), 23));
  }
};

template <>
struct WideBlock<WeightFormat::q4_0_r8> {
  static constexpr int kOffset = 8;
  static __m512i value(__m512i nibbles) { return nibbles; }
  static void weights(const std::byte* a, const std::byte* b, __m512i (&w)[8]) { wide_nibbles<WideBlock>(a, b, w); }
  static __m512 factors(const std::byte* a, const std::byte* b) { return two_f16_scales(a, b); }
};

template <>
struct WideBlock<WeightFormat::q8_0_r8> {
  static constexpr int kOffset = 128;
  static void weights(const std::byte* a, const std::byte* b, __m512i (&w)[8]) {
    const __m512i sign = _mm512_set1_epi8(-128);
#pragma GCC unroll 8
    for (int v = 0; v < 8; ++v) w[v] = _mm512_xor_si512(two_halves(a + 32 * v, b + 32 * v), sign);
  }
  static __m512 factors(const std::byte* a, const std::byte* b) { return two_f16_scales(a, b); }
};

// Two neighbouring groups of a packed matrix, walked block by block. A last group without a neighbour is its own.
struct WidePair {
  std::int64_t blocks;
  const std::byte* data[2];
  const std::byte* scales[2];

  WidePair(const PackedRows& w, std::int64_t group, bool both) : blocks(w.cols / kQ8Block) {
    for (std::int64_t i = 0; i < 2; ++i) {
      data[i] = w.data + (group + (both ? i : 0)) * w.group_bytes;
      scales[i] = w.scales + (group + (both ? i : 0)) * w.scale_group_bytes;
    }
  }
};

// acc += (sixteen integer sums, as floats, times the row's scale) times the weights' scales.
inline __m512 add_scaled_wide(__m512i sums, float scale, __m512 factors, __m512 acc) {
  return _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sums), _mm512_set1_ps(scale)), factors, acc);
}
inline void store_wide(float* to, __m512 x, bool both) {
  if (both) {
    _mm512_storeu_ps(to, x);
  } else {
    _mm256_storeu_ps(to, _mm512_castps512_ps256(x));
  }
}

// sums[r * stride + j] = x[r] . row (8 * group + j), for R rows and j < 16, or 8 unless `both`.
template <WeightFormat F, int R>
inline void q8_dot_pair(const PackedRows& matrix, std::int64_t group, bool both, const Q8Block* const* x, float* sums, std::int64_t stride) {
  const WidePair pair(matrix, group, both);
  const __m512i offset = _mm512_set1_epi16(WideBlock<F>::kOffset);
  const Q8Block* rows[R];
  __m512 acc[R];
  for (int r = 0; r < R; ++r) {
    rows[r] = x[r];
    acc[r] = _mm512_setzero_ps();
  }
  for (std::int64_t b = 0; b < pair.blocks; ++b) {
    __m512i w[8];
    WideBlock<F>::weights(pair.data[0] + b * PackedShape<F>::kBytes, pair.data[1] + b * PackedShape<F>::kBytes, w);
    const __m512 factors = WideBlock<F>::factors(pair.scales[0] + b * PackedShape<F>::kScaleBytes, pair.scales[1] + b * PackedShape<F>::kScaleBytes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Q8Block& block = rows[r][b];
      __m512i total = _mm512_dpwssd_epi32(_mm512_setzero_si512(), offset, four_bytes_wide(block.sums));
#pragma GCC unroll 8
      for (int v = 0; v < 8; ++v) total = add_code_products(total, w[v], block.codes + 4 * v);
      acc[r] = add_scaled_wide(total, block.scale, factors, acc[r]);
    }
  }
  for (int r = 0; r < R; ++r) store_wide(sums + r * stride, acc[r], both);
}

// One or two rows take one group after the other in half vectors: one stream of weights instead of two, which is what counts when they come
// from memory, and no shuffle that spreads codes over a wide vector, of which a Zen 4 has half as many a cycle.
template <WeightFormat F, int R>
inline void q8_dot_pairs(const PackedRows& w, std::int64_t first, int groups, const Q8Block* const* x, float* sums, std::int64_t stride) {
  if constexpr (R <= kReadAheadRows) {
    for (int g = 0; g < groups; ++g) q8_dot_group<F, R>(w, first + g, x, sums + 8 * g, stride);
  } else {
    for (int g = 0; g < groups; g += 2) q8_dot_pair<F, R>(w, first + g, g + 1 < groups, x, sums + 8 * g, stride);
  }
}

// sums[r * stride + j] = x[r] . row (8 * first + j), r < rows, j < 8 * groups. REQUIRES: 1 <= rows <= 8.
template <WeightFormat F>
void q8_wide_dot(const PackedRows& w, std::int64_t first, int groups, const Q8Block* const* x, int rows, float* sums, std::int64_t stride) {
  with_row_count(rows, [&]<int R>() { q8_dot_pairs<F, R>(w, first, groups, x, sums, stride); });
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
