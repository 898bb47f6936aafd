// q8_block.h goes on: packed formats with a minimum, and those of 256 elements.
//
// A part's integer scale is multiplied in where the sums of pairs are widened anyway (vpmaddwd), so it costs no instruction of its
// own. The minimum of a part meets the sum of the activations' codes, which Q8Block carries: one more vpmaddwd for a part and row.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// The low 16 bits of each lane in both of its halves.
inline __m256i in_both_halves(__m256i lanes) { return _mm256_blend_epi16(lanes, _mm256_slli_epi32(lanes, 16), 0xAA); }
inline __m128i load_8_bytes(const std::byte* from) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)); }
inline __m256i byte_pairs(const std::byte* from) { return in_both_halves(_mm256_cvtepu8_epi32(load_8_bytes(from))); }

// acc[r] += x.scale * (d * scale * sum(w * x) - dmin * min * sum(x)) of block b, w unsigned.
//
// The sums of pairs stay in 16 bits over `Group` vectors: 2 * Group * (largest w) * 127 <= 32767, so 8 for codes to 15 and 4 for
// codes to 31. Times a scale to 63 they fit 32 bits.
template <int Group, int R>
inline void add_min_products(const __m256i (&w)[8], __m256i scale, __m256i min, __m256 d, __m256 dmin, const Q8Block* const (&x)[R],
                             std::int64_t b, F32x8 (&acc)[R]) {
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    const Q8Block& block = x[r][b];
    __m256i sum = _mm256_setzero_si256();
#pragma GCC unroll 2
    for (int g = 0; g < 8; g += Group) {
      __m256i pairs = _mm256_maddubs_epi16(w[g], four_bytes(block.codes + 4 * g));
#pragma GCC unroll 8
      for (int v = g + 1; v < g + Group; ++v) pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(w[v], four_bytes(block.codes + 4 * v)));
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, scale));
    }
    // Q8Block::sums are minus the sums of the codes, so this is minus min * sum(x).
    const __m256 below = _mm256_cvtepi32_ps(_mm256_madd_epi16(four_bytes(block.sums), min));
    const __m256 part = _mm256_fmadd_ps(below, dmin, _mm256_mul_ps(_mm256_cvtepi32_ps(sum), d));
    acc[r].v = _mm256_fmadd_ps(part, _mm256_set1_ps(block.scale), acc[r].v);
  }
}

// The nibbles of 16 code bytes of eight rows: elements 4 v .. 4 v + 3 in w[v].
inline void unpack_nibbles(const std::byte* data, __m256i (&w)[8]) {
  const __m256i low = _mm256_set1_epi8(15);
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v) {
    const __m256i codes = load_32_bytes(data + 32 * v);
    w[v] = _mm256_and_si256(codes, low);
    w[v + 4] = _mm256_and_si256(_mm256_srli_epi16(codes, 4), low);
  }
}

template <>
struct PackedBlock<WeightFormat::q4_1_r8> {
  template <int R>
  static void add(const std::byte* data, const std::byte* scales, const Q8Block* const (&x)[R], std::int64_t b, F32x8 (&acc)[R]) {
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i w[8];
    unpack_nibbles(data, w);
    const __m256 offset = f16_scales(scales + 16);
    add_min_products<8, R>(w, ones, ones, f16_scales(scales), _mm256_xor_ps(offset, _mm256_set1_ps(-0.0F)), x, b, acc);
  }
};

template <>
struct PackedBlock<WeightFormat::nvfp4_r8> {
  // Magnitude and sign apart, as below for q6_k_r8, since a scale belongs to 16 elements: 8 products of 12 * 127 are 12192.
  template <int R>
  static void add(const std::byte* data, const std::byte* scales, const Q8Block* const (&x)[R], std::int64_t b, F32x8 (&acc)[R]) {
    const __m256i low = _mm256_set1_epi8(15);
    const __m256i ones = _mm256_set1_epi16(1);
    const __m256i values = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12));
#pragma GCC unroll 1
    for (int sub = 0; sub < 4; ++sub) {
      __m256i w[4], magnitude[4];
      for (int v = 0; v < 4; ++v) {
        const __m256i codes = load_32_bytes(data + 128 * (sub / 2) + 32 * v);
        w[v] = _mm256_shuffle_epi8(values, _mm256_and_si256(sub % 2 == 0 ? codes : _mm256_srli_epi16(codes, 4), low));
        magnitude[v] = _mm256_abs_epi8(w[v]);
      }
      const __m256 d = f16_scales(scales + 16 * sub);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const Q8Block& block = x[r][b + sub / 2];
        const std::int8_t* codes = block.codes + 16 * (sub % 2);
        __m256i pairs = _mm256_maddubs_epi16(magnitude[0], _mm256_sign_epi8(four_bytes(codes), w[0]));
#pragma GCC unroll 4
        for (int v = 1; v < 4; ++v) {
          pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(magnitude[v], _mm256_sign_epi8(four_bytes(codes + 4 * v), w[v])));
        }
        add_scaled(_mm256_madd_epi16(pairs, ones), block, d, acc[r]);
      }
    }
  }
};

template <>
struct PackedBlock<WeightFormat::q4_k_r8> {
  template <int R>
  static void add(const std::byte* data, const std::byte* scales, const Q8Block* const (&x)[R], std::int64_t b, F32x8 (&acc)[R]) {
    const __m256 d = f16_scales(scales);
    const __m256 dmin = f16_scales(scales + 16);
#pragma GCC unroll 1
    for (int p = 0; p < blocks::kSuperParts; ++p) {
      __m256i w[8];
      unpack_nibbles(data + 128 * p, w);
      const std::byte* pair = scales + 32 + 16 * p;
      add_min_products<8, R>(w, byte_pairs(pair), byte_pairs(pair + 8), d, dmin, x, b + p, acc);
    }
  }
};

// Bit `From` of every byte moved to bit `To`; the other bits are to be masked out.
template <int From, int To>
inline __m256i moved(__m256i bytes) {
  if constexpr (From < To) return _mm256_slli_epi16(bytes, To - From);
  else if constexpr (From > To) return _mm256_srli_epi16(bytes, From - To);
  else return bytes;
}

template <>
struct PackedBlock<WeightFormat::q5_k_r8> {
  template <int V>
  static void add_bit(__m256i upper, __m256i (&w)[8]) {
    w[V] = _mm256_or_si256(w[V], _mm256_and_si256(moved<V, 4>(upper), _mm256_set1_epi8(16)));
    if constexpr (V < 7) add_bit<V + 1>(upper, w);
  }
  template <int R>
  static void add(const std::byte* data, const std::byte* scales, const Q8Block* const (&x)[R], std::int64_t b, F32x8 (&acc)[R]) {
    const __m256 d = f16_scales(scales);
    const __m256 dmin = f16_scales(scales + 16);
#pragma GCC unroll 1
    for (int p = 0; p < blocks::kSuperParts; ++p, data += 160) {
      __m256i w[8];
      unpack_nibbles(data, w);
      add_bit<0>(load_32_bytes(data + 128), w);
      const std::byte* pair = scales + 32 + 16 * p;
      add_min_products<4, R>(w, byte_pairs(pair), byte_pairs(pair + 8), d, dmin, x, b + p, acc);
    }
  }
};

template <>
struct PackedBlock<WeightFormat::q6_k_r8> {
  template <int V>
  static void add_bits(const __m256i (&upper)[2], __m256i (&w)[8]) {
    w[V] = _mm256_or_si256(w[V], _mm256_and_si256(moved<2 * (V % 4), 4>(upper[V / 4]), _mm256_set1_epi8(48)));
    if constexpr (V < 7) add_bits<V + 1>(upper, w);
  }
  // Codes minus 32, as magnitude and sign (q8_0_r8 says why): 8 products of 32 * 127 are 32512. A scale belongs to 16 elements, and
  // the sum of the activations' codes is kept for 32, so an offset could not be taken out again.
  template <int R>
  static void add(const std::byte* data, const std::byte* scales, const Q8Block* const (&x)[R], std::int64_t b, F32x8 (&acc)[R]) {
    const __m256 d = f16_scales(scales);
#pragma GCC unroll 1
    for (int p = 0; p < blocks::kSuperParts; ++p, data += 192) {
      __m256i w[8];
      unpack_nibbles(data, w);
      const __m256i upper[2] = {load_32_bytes(data + 128), load_32_bytes(data + 160)};
      add_bits<0>(upper, w);
      for (int v = 0; v < 8; ++v) w[v] = _mm256_sub_epi8(w[v], _mm256_set1_epi8(32));
      __m256i sums[R];
      for (int r = 0; r < R; ++r) sums[r] = _mm256_setzero_si256();
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        const __m256i scale = in_both_halves(_mm256_cvtepi8_epi32(load_8_bytes(scales + 16 + 8 * (2 * p + half))));
        __m256i magnitude[4];
        for (int v = 0; v < 4; ++v) magnitude[v] = _mm256_abs_epi8(w[4 * half + v]);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
          const std::int8_t* codes = x[r][b + p].codes + 16 * half;
          __m256i pairs = _mm256_maddubs_epi16(magnitude[0], _mm256_sign_epi8(four_bytes(codes), w[4 * half]));
#pragma GCC unroll 4
          for (int v = 1; v < 4; ++v) {
            pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(magnitude[v], _mm256_sign_epi8(four_bytes(codes + 4 * v), w[4 * half + v])));
          }
          sums[r] = _mm256_add_epi32(sums[r], _mm256_madd_epi16(pairs, scale));
        }
      }
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) add_scaled(sums[r], x[r][b + p], d, acc[r]);
    }
  }
};

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
