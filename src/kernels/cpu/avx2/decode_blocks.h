// decode.h goes on: the formats with several scales in a block. Same values as the scalar codecs:
// all products of a block's fields are exact, and where an offset is added the result is rounded once, fused or not.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

inline __m256 times(__m256 scale, int factor) { return _mm256_mul_ps(scale, _mm256_set1_ps(static_cast<float>(factor))); }

template <>
struct Codec<WeightFormat::nvfp4> {
  static constexpr int kUnit = 32;
  static constexpr int kParts = 2;
  static constexpr int kBytes = blocks::kNvfp4Bytes;
  static void decode(const std::byte* data, int part, F32x8* out) {
    const __m128i codes = load_16_bytes(data + 4 + 16 * part);
    const __m128i low = doubled_e2m1(low_nibbles(codes));  // elements 0..7 of either sub-block
    const __m128i high = doubled_e2m1(high_nibbles(codes));
    for (int sub = 0; sub < 2; ++sub) {
      const __m256 scale = _mm256_set1_ps(0.5F * blocks::ue4m3_to_float(static_cast<std::uint8_t>(data[2 * part + sub])));
      const __m128i values = sub == 0 ? _mm_unpacklo_epi64(low, high) : _mm_unpackhi_epi64(low, high);
      scaled_16_bytes(values, scale, out + 2 * sub);
    }
  }
};

// What q4_k and q5_k share: the pair of a part, and its 32 codes.
inline void decode_min_part(const std::byte* data, int part, __m128i first, __m128i second, F32x8* out) {
  const auto pair = blocks::scale_pair(reinterpret_cast<const std::uint8_t*>(data) + blocks::kQ4kPairs, part);
  const __m256 scale = times(f16_scale(data), pair.scale);
  const __m256 offset = times(f16_scale(data + 2), -pair.min);
  offset_16_bytes(first, scale, offset, out);
  offset_16_bytes(second, scale, offset, out + 2);
}
// The low four bits of 16 bytes shifted right by `shift`.
inline __m128i nibbles_at(const std::byte* from, __m128i shift) {
  return _mm_and_si128(_mm_srl_epi16(load_16_bytes(from), shift), _mm_set1_epi8(15));
}

template <>
struct Codec<WeightFormat::q4_k> {
  static constexpr int kUnit = 32;
  static constexpr int kParts = blocks::kSuperParts;
  static constexpr int kBytes = blocks::kQ4kBytes;
  static void decode(const std::byte* data, int part, F32x8* out) {
    const std::byte* codes = data + blocks::kQ4kNibbles + part / 2 * 32;
    const __m128i shift = _mm_cvtsi32_si128(part % 2 * 4);
    decode_min_part(data, part, nibbles_at(codes, shift), nibbles_at(codes + 16, shift), out);
  }
};

template <>
struct Codec<WeightFormat::q5_k> {
  static constexpr int kUnit = 32;
  static constexpr int kParts = blocks::kSuperParts;
  static constexpr int kBytes = blocks::kQ5kBytes;
  static void decode(const std::byte* data, int part, F32x8* out) {
    const std::byte* codes = data + blocks::kQ5kNibbles + part / 2 * 32;
    const __m128i shift = _mm_cvtsi32_si128(part % 2 * 4);
    const __m128i bit = _mm_set1_epi8(static_cast<char>(1 << part));
    __m128i values[2];
    for (int i = 0; i < 2; ++i) {
      const __m128i upper = load_16_bytes(data + blocks::kQ5kUpper + 16 * i);
      const __m128i is_set = _mm_cmpeq_epi8(_mm_and_si128(upper, bit), bit);
      values[i] = _mm_or_si128(nibbles_at(codes + 16 * i, shift), _mm_and_si128(is_set, _mm_set1_epi8(16)));
    }
    decode_min_part(data, part, values[0], values[1], out);
  }
};

template <>
struct Codec<WeightFormat::q6_k> {
  static constexpr int kUnit = 32;
  static constexpr int kParts = blocks::kSuperParts;
  static constexpr int kBytes = blocks::kQ6kBytes;
  static void decode(const std::byte* data, int part, F32x8* out) {
    const int half = part / 4;
    const int i = part % 4;
    const std::byte* low = data + 64 * half + 32 * (i % 2);
    const std::byte* upper = data + blocks::kQ6kUpper + 32 * half;
    const __m128i low_shift = _mm_cvtsi32_si128(i / 2 * 4);
    const __m128i upper_shift = _mm_cvtsi32_si128(2 * i);
    const __m256 d = f16_scale(data + blocks::kQ6kD);
    for (int j = 0; j < 2; ++j) {
      const __m128i two = _mm_and_si128(_mm_srl_epi16(load_16_bytes(upper + 16 * j), upper_shift), _mm_set1_epi8(3));
      const __m128i codes = _mm_or_si128(nibbles_at(low + 16 * j, low_shift), _mm_slli_epi16(two, 4));
      const int scale = static_cast<std::int8_t>(data[blocks::kQ6kScales + 2 * part + j]);
      scaled_16_bytes(_mm_sub_epi8(codes, _mm_set1_epi8(32)), times(d, scale), out + 2 * j);
    }
  }
};

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
