// Stored weights to vectors of floats, in registers. Same names as portable/decode.h, and the same values: every decode is
// exact. (E2M1's -0 becomes +0, as it passes through an integer.)
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// Codec<F>: kUnit elements of a row (8, or one block of 32) lie in kBytes bytes. `decode` gives them in natural order; `scale`
// is the E8M0 byte of a format that keeps its scales apart (kScales), unused by the others.
// A format whose blocks are longer has kParts of kUnit elements in kBytes, and `decode` takes the number of the part instead.
template <WeightFormat F>
struct Codec;

inline __m128i load_16_bytes(const std::byte* from) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)); }

// The low 8 signed bytes times `scale`.
inline F32x8 scaled_bytes(__m128i bytes, __m256 scale) {
  return {_mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)), scale)};
}
// 16 signed bytes, as elements [0, 8) and [8, 16).
inline void scaled_16_bytes(__m128i bytes, __m256 scale, F32x8* out) {
  out[0] = scaled_bytes(bytes, scale);
  out[1] = scaled_bytes(_mm_unpackhi_epi64(bytes, bytes), scale);
}
inline __m256 f16_scale(const std::byte* from) {
  std::uint16_t bits;
  std::memcpy(&bits, from, sizeof bits);
  return _mm256_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(bits)));
}
// Twice the E2M1 value of each nibble, as a byte: 0, 1, 2, 3, 4, 6, 8, 12 and their negatives. Half the block's scale undoes
// the doubling; all of it is exact.
inline __m128i doubled_e2m1(__m128i nibbles) {
  return _mm_shuffle_epi8(_mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12), nibbles);
}
// 2^(scale - 128), half of the E8M0 value. Scales 0 and 1 give subnormals.
inline __m256 half_e8m0(std::byte scale) {
  const auto s = static_cast<std::uint32_t>(scale);
  const std::uint32_t bits = s >= 2 ? (s == 0xFF ? 0x7FC00000U : (s - 1) << 23) : 0x200000U << s;
  return _mm256_set1_ps(std::bit_cast<float>(bits));
}
inline __m128i interleave_low(__m128i even, __m128i odd) { return _mm_unpacklo_epi8(even, odd); }
inline __m128i interleave_high(__m128i even, __m128i odd) { return _mm_unpackhi_epi8(even, odd); }
inline __m128i minus_eight(__m128i nibbles) { return _mm_sub_epi8(nibbles, _mm_set1_epi8(8)); }
inline __m128i low_nibbles(__m128i codes) { return _mm_and_si128(codes, _mm_set1_epi8(15)); }
inline __m128i high_nibbles(__m128i codes) { return _mm_and_si128(_mm_srli_epi16(codes, 4), _mm_set1_epi8(15)); }

// 16 unsigned bytes times `scale`, plus `offset`.
inline void offset_16_bytes(__m128i bytes, __m256 scale, __m256 offset, F32x8* out) {
  const __m128i halves[2] = {bytes, _mm_unpackhi_epi64(bytes, bytes)};
  for (int i = 0; i < 2; ++i) {
    out[i] = {_mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(halves[i])), scale, offset)};
  }
}

inline __m128i iq4_nl_values(__m128i nibbles) {
  return _mm_shuffle_epi8(_mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113), nibbles);
}

template <>
struct Codec<WeightFormat::f32> {
  static constexpr int kUnit = 8;
  static constexpr int kBytes = 32;
  static constexpr bool kScales = false;
  static void decode(const std::byte* data, const std::byte*, F32x8* out) { out[0] = load8(data); }
};

template <>
struct Codec<WeightFormat::f16> {
  static constexpr int kUnit = 8;
  static constexpr int kBytes = 16;
  static constexpr bool kScales = false;
  static void decode(const std::byte* data, const std::byte*, F32x8* out) {
    out[0] = {_mm256_cvtph_ps(load_16_bytes(data))};
  }
};

template <>
struct Codec<WeightFormat::bf16> {
  static constexpr int kUnit = 8;
  static constexpr int kBytes = 16;
  static constexpr bool kScales = false;
  static void decode(const std::byte* data, const std::byte*, F32x8* out) {
    out[0] = {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_16_bytes(data)), 16))};
  }
};

template <>
struct Codec<WeightFormat::q8_0> {
  static constexpr int kUnit = blocks::kBlock;
  static constexpr int kBytes = blocks::kQ8Bytes;
  static constexpr bool kScales = false;
  static void decode(const std::byte* data, const std::byte*, F32x8* out) {
    const __m256 scale = f16_scale(data);
    // Eight bytes at a time: the load is part of the widening, where 16 would need a shuffle for the upper half.
    for (int i = 0; i < 4; ++i) {
      out[i] = scaled_bytes(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(data + 2 + 8 * i)), scale);
    }
  }
};

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA

#include "kernels/cpu/generic/nibble_codecs.h"
