// Stored weights to vectors of floats, in registers. Same names as portable/decode.h, and the same values: every decode is
// exact. (E2M1's -0 becomes +0, as it passes through an integer.)
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// Codec<F>: kUnit elements of a row (8, or one block of 32) lie in kBytes bytes. `decode` gives them in natural order; `scale`
// is the E8M0 byte of a format that keeps its scales apart (kScales), unused by the others.
template <WeightFormat F>
struct Codec;

inline uint8x16_t load_16_bytes(const std::byte* from) { return vld1q_u8(reinterpret_cast<const std::uint8_t*>(from)); }
// Two-byte elements lie at any address in a file.
inline uint16x8_t load_8_halves(const std::byte* from) { return vreinterpretq_u16_u8(load_16_bytes(from)); }
inline F32x8 f16_to_f32(uint16x8_t bits) {
  const float16x8_t halves = vreinterpretq_f16_u16(bits);
  return {vcvt_f32_f16(vget_low_f16(halves)), vcvt_high_f32_f16(halves)};
}
inline F32x8 bf16_to_f32(uint16x8_t bits) {
  return {vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(bits), 16)), vreinterpretq_f32_u32(vshll_high_n_u16(bits, 16))};
}

// 16 signed bytes times `scale`, as elements [0, 8) and [8, 16).
inline void scaled_16_bytes(int8x16_t bytes, float scale, F32x8* out) {
  const int16x8_t half[2] = {vmovl_s8(vget_low_s8(bytes)), vmovl_high_s8(bytes)};
  for (int i = 0; i < 2; ++i) {
    out[i] = {vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(half[i]))), scale),
              vmulq_n_f32(vcvtq_f32_s32(vmovl_high_s16(half[i])), scale)};
  }
}
inline float f16_scale(const std::byte* from) {
  std::uint16_t bits;
  std::memcpy(&bits, from, sizeof bits);
  return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(bits))), 0);
}
// Twice the E2M1 value of each nibble: 0, 1, 2, 3, 4, 6, 8, 12 and their negatives. Half the block's scale undoes the doubling;
// all of it is exact.
inline int8x16_t doubled_e2m1(uint8x16_t nibbles) {
  const int8x16_t values = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  return vqtbl1q_s8(values, nibbles);
}
// 2^(scale - 128), half of the E8M0 value. Scales 0 and 1 give subnormals.
inline float half_e8m0(std::byte scale) {
  const auto s = static_cast<std::uint32_t>(scale);
  const std::uint32_t bits = s >= 2 ? (s == 0xFF ? 0x7FC00000U : (s - 1) << 23) : 0x200000U << s;
  return std::bit_cast<float>(bits);
}
inline int8x16_t interleave_low(int8x16_t even, int8x16_t odd) { return vzip1q_s8(even, odd); }
inline int8x16_t interleave_high(int8x16_t even, int8x16_t odd) { return vzip2q_s8(even, odd); }
inline int8x16_t minus_eight(uint8x16_t nibbles) { return vreinterpretq_s8_u8(vsubq_u8(nibbles, vdupq_n_u8(8))); }
inline uint8x16_t low_nibbles(uint8x16_t codes) { return vandq_u8(codes, vdupq_n_u8(15)); }
inline uint8x16_t high_nibbles(uint8x16_t codes) { return vshrq_n_u8(codes, 4); }

template <>
struct Codec<WeightFormat::f32> {
  static constexpr int kUnit = 8;
  static constexpr int kBytes = 32;
  static constexpr bool kScales = false;
  static void decode(const std::byte* data, const std::byte*, F32x8* out) {
    out[0] = {vreinterpretq_f32_u8(load_16_bytes(data)), vreinterpretq_f32_u8(load_16_bytes(data + 16))};
  }
};

template <>
struct Codec<WeightFormat::f16> {
  static constexpr int kUnit = 8;
  static constexpr int kBytes = 16;
  static constexpr bool kScales = false;
  static void decode(const std::byte* data, const std::byte*, F32x8* out) { out[0] = f16_to_f32(load_8_halves(data)); }
};

template <>
struct Codec<WeightFormat::bf16> {
  static constexpr int kUnit = 8;
  static constexpr int kBytes = 16;
  static constexpr bool kScales = false;
  static void decode(const std::byte* data, const std::byte*, F32x8* out) { out[0] = bf16_to_f32(load_8_halves(data)); }
};

template <>
struct Codec<WeightFormat::q8_0> {
  static constexpr int kUnit = blocks::kBlock;
  static constexpr int kBytes = blocks::kQ8Bytes;
  static constexpr bool kScales = false;
  static void decode(const std::byte* data, const std::byte*, F32x8* out) {
    const float scale = f16_scale(data);
    for (int i = 0; i < 2; ++i) scaled_16_bytes(vreinterpretq_s8_u8(load_16_bytes(data + 2 + 16 * i)), scale, out + 2 * i);
  }
};

// 16 unsigned bytes times `scale`, plus `offset`.
inline void offset_16_bytes(uint8x16_t bytes, float scale, float offset, F32x8* out) {
  const F32x8 scales = splat(scale);
  const F32x8 offsets = splat(offset);
  const uint16x8_t half[2] = {vmovl_u8(vget_low_u8(bytes)), vmovl_high_u8(bytes)};
  for (int i = 0; i < 2; ++i) {
    out[i] = mul_add({vcvtq_f32_u32(vmovl_u16(vget_low_u16(half[i]))), vcvtq_f32_u32(vmovl_high_u16(half[i]))}, scales, offsets);
  }
}

inline int8x16_t iq4_nl_values(uint8x16_t nibbles) {
  const int8x16_t values = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  return vqtbl1q_s8(values, nibbles);
}

// Several scales in a block: scalar so far.
template <> struct Codec<WeightFormat::nvfp4> : PartCodec<2, blocks::kNvfp4Bytes, blocks::decode_nvfp4> {};
template <> struct Codec<WeightFormat::q4_k> : PartCodec<blocks::kSuperParts, blocks::kQ4kBytes, blocks::decode_q4_k> {};
template <> struct Codec<WeightFormat::q5_k> : PartCodec<blocks::kSuperParts, blocks::kQ5kBytes, blocks::decode_q5_k> {};
template <> struct Codec<WeightFormat::q6_k> : PartCodec<blocks::kSuperParts, blocks::kQ6kBytes, blocks::decode_q6_k> {};

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA

#include "kernels/cpu/generic/nibble_codecs.h"
