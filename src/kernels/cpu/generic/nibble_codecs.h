// The block formats of nibbles with one scale a block, for sets with 16-byte registers. Included at the end of a set's decode.h, which has
// the steps: load_16_bytes, low_nibbles, high_nibbles, minus_eight, doubled_e2m1, iq4_nl_values, interleave_low, interleave_high,
// f16_scale, half_e8m0, scaled_16_bytes, offset_16_bytes.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// Elements [0, 16) are the low nibbles, [16, 32) the high ones.
template <>
struct Codec<WeightFormat::q4_0> {
  static constexpr int kUnit = blocks::kBlock;
  static constexpr int kBytes = blocks::kQ4Bytes;
  static constexpr bool kScales = false;
  static void decode(const std::byte* data, const std::byte*, F32x8* out) {
    const auto scale = f16_scale(data);
    const auto codes = load_16_bytes(data + 2);
    scaled_16_bytes(minus_eight(low_nibbles(codes)), scale, out);
    scaled_16_bytes(minus_eight(high_nibbles(codes)), scale, out + 2);
  }
};

template <>
struct Codec<WeightFormat::q4_1> {
  static constexpr int kUnit = blocks::kBlock;
  static constexpr int kBytes = blocks::kQ41Bytes;
  static constexpr bool kScales = false;
  static void decode(const std::byte* data, const std::byte*, F32x8* out) {
    const auto scale = f16_scale(data);
    const auto offset = f16_scale(data + 2);
    const auto codes = load_16_bytes(data + 4);
    offset_16_bytes(low_nibbles(codes), scale, offset, out);
    offset_16_bytes(high_nibbles(codes), scale, offset, out + 2);
  }
};

template <>
struct Codec<WeightFormat::iq4_nl> {
  static constexpr int kUnit = blocks::kBlock;
  static constexpr int kBytes = blocks::kIq4NlBytes;
  static constexpr bool kScales = false;
  static void decode(const std::byte* data, const std::byte*, F32x8* out) {
    const auto scale = f16_scale(data);
    const auto codes = load_16_bytes(data + 2);
    scaled_16_bytes(iq4_nl_values(low_nibbles(codes)), scale, out);
    scaled_16_bytes(iq4_nl_values(high_nibbles(codes)), scale, out + 2);
  }
};

template <>
struct Codec<WeightFormat::mxfp4> {
  static constexpr int kUnit = blocks::kBlock;
  static constexpr int kBytes = blocks::kMxfp4Bytes;
  static constexpr bool kScales = false;
  static void decode(const std::byte* data, const std::byte*, F32x8* out) {
    const auto scale = half_e8m0(data[0]);
    const auto codes = load_16_bytes(data + 1);
    scaled_16_bytes(doubled_e2m1(low_nibbles(codes)), scale, out);
    scaled_16_bytes(doubled_e2m1(high_nibbles(codes)), scale, out + 2);
  }
};

// Here the nibbles of a byte are neighbours, the low one first.
template <>
struct Codec<WeightFormat::mxfp4_split> {
  static constexpr int kUnit = blocks::kBlock;
  static constexpr int kBytes = blocks::kMxfp4CodeBytes;
  static constexpr bool kScales = true;
  static void decode(const std::byte* data, const std::byte* scale_byte, F32x8* out) {
    const auto scale = half_e8m0(*scale_byte);
    const auto codes = load_16_bytes(data);
    const auto even = doubled_e2m1(low_nibbles(codes));
    const auto odd = doubled_e2m1(high_nibbles(codes));
    scaled_16_bytes(interleave_low(even, odd), scale, out);
    scaled_16_bytes(interleave_high(even, odd), scale, out + 2);
  }
};

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
