// Integer dot products of a packed block (eight rows, 32 elements) with q8 activations, and the quantiser. Same names as
// portable/q8_block.h, and the same bits: all of it is exact in integers.
//
// What is counted here are instructions, not bytes: on the machines this set is for, a product of 4-bit weights is limited by
// how many vector instructions a block needs. The layout (weight.h) keeps a sum of an output inside its own 32-bit lane, so
// there is no horizontal addition, and the eight scales of a block are one vector.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// Four neighbouring bytes in every lane: one load, no shuffle.
inline __m256i four_bytes(const void* from) {
  std::int32_t four;
  std::memcpy(&four, from, sizeof four);
  return _mm256_set1_epi32(four);
}
inline __m256i load_32_bytes(const std::byte* from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)); }

// acc[r] += (eight integer sums, as floats, times row r's scale) times the weights' scales.
inline void add_scaled(__m256i sums, const Q8Block& x, __m256 scales, F32x8& acc) {
  const __m256 scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(sums), _mm256_set1_ps(x.scale));
  acc.v = _mm256_fmadd_ps(scaled, scales, acc.v);
}

// Adds the products of block b of R rows of activations with weights w[k / 4] - offset, w in [0, 255] unsigned, offset = 1 << Shift.
//
// Per row: eight vpmaddubsw, eight additions, one vpmaddwd. The sums of pairs stay in 16 bits over the whole block, which saves
// seven of eight vpmaddwd. That is exact: additions of 16 bits are modulo 2^16, in any order, and the final value of a lane is
// the sum of 16 products (w - offset) * code. It fits when |w - offset| * 127 * 16 <= 32767, that is |w - offset| <= 16: E2M1
// doubled is within 12, Q4_0 within 8. Only vpmaddubsw itself saturates: a pair is at most 2 * w * 127, so w <= 129 is safe.
//
// Each row is finished before the next begins: eight decoded weights and the accumulators of eight rows are all the registers there
// are, and what does not fit is a load more in a loop that two loads a cycle already limit.
template <int Shift, int R>
inline void add_offset_products(const __m256i (&w)[8], __m256 scales, const Q8Block* const (&x)[R], std::int64_t b, F32x8 (&acc)[R]) {
  const __m256i ones = _mm256_set1_epi16(1);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    const Q8Block& block = x[r][b];
    __m256i pairs = _mm256_slli_epi16(four_bytes(block.sums), Shift);
#pragma GCC unroll 8
    for (int v = 0; v < 8; ++v) pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(w[v], four_bytes(block.codes + 4 * v)));
    add_scaled(_mm256_madd_epi16(pairs, ones), block, scales, acc[r]);
  }
}

// A block of eight packed rows. `add` adds its products with block b of R rows of activations to acc[r], in one rounding order
// whatever R is.
template <WeightFormat F>
struct PackedBlock;

template <>
struct PackedBlock<WeightFormat::mxfp4_r8> {
  template <int R>
  static void add(const std::byte* data, const std::byte* scales, const Q8Block* const (&x)[R], std::int64_t b, F32x8 (&acc)[R]) {
    // E2M1 doubled, plus 16.
    const __m256i values = _mm256_broadcastsi128_si256(_mm_setr_epi8(16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4));
    const __m256i low = _mm256_set1_epi8(15);
    __m256i w[8];
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      const __m256i codes = load_32_bytes(data + 32 * v);
      w[v] = _mm256_shuffle_epi8(values, _mm256_and_si256(codes, low));
      w[v + 4] = _mm256_shuffle_epi8(values, _mm256_and_si256(_mm256_srli_epi16(codes, 4), low));
    }
    const __m128i exponents = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(scales));
    const __m256 factors = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu8_epi32(exponents), 23));
    add_offset_products<4, R>(w, factors, x, b, acc);
  }
};

inline __m256 f16_scales(const std::byte* scales) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(scales))); }

template <>
struct PackedBlock<WeightFormat::q4_0_r8> {
  template <int R>
  static void add(const std::byte* data, const std::byte* scales, const Q8Block* const (&x)[R], std::int64_t b, F32x8 (&acc)[R]) {
    const __m256i low = _mm256_set1_epi8(15);
    __m256i w[8];
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      const __m256i codes = load_32_bytes(data + 32 * v);
      w[v] = _mm256_and_si256(codes, low);
      w[v + 4] = _mm256_and_si256(_mm256_srli_epi16(codes, 4), low);
    }
    add_offset_products<3, R>(w, f16_scales(scales), x, b, acc);
  }
};

// Adds the products of block b of R rows of activations with signed weights weight(v), elements 4v..4v + 3 of the rows.
//
// An offset of 128 would saturate a pair, so the sign moves from the weight to the activation: |w| * (code with w's sign). A pair is at
// most 2 * 128 * 127 = 32512; two of them do not fit, so each is widened at once.
template <int R, class Weight>
inline void add_signed_products(Weight&& weight, __m256 scales, const Q8Block* const (&x)[R], std::int64_t b, F32x8 (&acc)[R]) {
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i sums[R];
  for (int r = 0; r < R; ++r) sums[r] = _mm256_setzero_si256();
#pragma GCC unroll 8
  for (int v = 0; v < 8; ++v) {
    const __m256i w = weight(v);
    const __m256i magnitude = _mm256_abs_epi8(w);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const __m256i codes = _mm256_sign_epi8(four_bytes(x[r][b].codes + 4 * v), w);
      sums[r] = _mm256_add_epi32(sums[r], _mm256_madd_epi16(_mm256_maddubs_epi16(magnitude, codes), ones));
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) add_scaled(sums[r], x[r][b], scales, acc[r]);
}

template <>
struct PackedBlock<WeightFormat::iq4_nl_r8> {
  template <int R>
  static void add(const std::byte* data, const std::byte* scales, const Q8Block* const (&x)[R], std::int64_t b, F32x8 (&acc)[R]) {
    const __m256i low = _mm256_set1_epi8(15);
    const __m256i values =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113));
    const auto weight = [&](int v) {
      const __m256i codes = load_32_bytes(data + 32 * (v % 4));
      return _mm256_shuffle_epi8(values, _mm256_and_si256(v < 4 ? codes : _mm256_srli_epi16(codes, 4), low));
    };
    add_signed_products<R>(weight, f16_scales(scales), x, b, acc);
  }
};

template <>
struct PackedBlock<WeightFormat::q8_0_r8> {
  template <int R>
  static void add(const std::byte* data, const std::byte* scales, const Q8Block* const (&x)[R], std::int64_t b, F32x8 (&acc)[R]) {
    add_signed_products<R>([&](int v) { return load_32_bytes(data + 32 * v); }, f16_scales(scales), x, b, acc);
  }
};

// One block of quantize.h.
inline void quantize_block(const float* x, Q8Block& out) {
  const __m256i magnitude = _mm256_set1_epi32(0x7FFFFFFF);
  __m256 v[4];
  // The magnitudes of floats are ordered as their bits, and what is not finite is above them all.
  __m256i largest = _mm256_setzero_si256();
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm256_loadu_ps(x + 8 * i);
    largest = _mm256_max_epi32(largest, _mm256_and_si256(_mm256_castps_si256(v[i]), magnitude));
  }
  __m128i most = _mm_max_epi32(_mm256_castsi256_si128(largest), _mm256_extracti128_si256(largest, 1));
  most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0x4E));
  most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0xB1));
  const auto bits = static_cast<std::uint32_t>(_mm_cvtsi128_si32(most));
  const float top = std::bit_cast<float>(bits);
  const bool finite = bits < 0x7F800000U;
  if (!finite || top < kQ8Smallest) {
    std::memset(&out, 0, sizeof out);
    out.scale = finite ? 0.0F : std::numeric_limits<float>::quiet_NaN();
    return;
  }
  out.scale = top / static_cast<float>(kQ8MaxCode);
  const __m256 inverse = _mm256_set1_ps(static_cast<float>(kQ8MaxCode) / top);
  __m256i whole[4];
  for (int i = 0; i < 4; ++i) whole[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], inverse));
  const __m256i mixed = _mm256_packs_epi16(_mm256_packs_epi32(whole[0], whole[1]), _mm256_packs_epi32(whole[2], whole[3]));
  const __m256i bytes = _mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));  // packs work in halves
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out.codes), bytes);
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes);
  __m128i total = _mm_add_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
  total = _mm_add_epi16(total, _mm_shuffle_epi32(total, 0x4E));
  total = _mm_add_epi16(total, _mm_shuffle_epi32(total, 0xB1));
  const std::int32_t both = _mm_cvtsi128_si32(_mm_sub_epi16(_mm_setzero_si128(), total));
  std::memcpy(out.sums, &both, sizeof both);
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
