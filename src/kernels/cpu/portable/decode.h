// Stored weights to vectors of floats, through the scalar codecs of base/blocks.h. Same names as avx2/decode.h.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// Codec<F>: kUnit elements of a row (8, or one block of 32) lie in kBytes bytes. `decode` gives them in natural order; `scale`
// is the E8M0 byte of a format that keeps its scales apart (kScales), unused by the others.
template <WeightFormat F>
struct Codec;

template <>
struct Codec<WeightFormat::f32> {
  static constexpr int kUnit = 8;
  static constexpr int kBytes = 32;
  static constexpr bool kScales = false;
  static void decode(const std::byte* data, const std::byte*, F32x8* out) { out[0] = load8(data); }
};

// A plain format of two bytes, by a scalar function.
template <float (*ToFloat)(std::uint16_t)>
struct HalfCodec {
  static constexpr int kUnit = 8;
  static constexpr int kBytes = 16;
  static constexpr bool kScales = false;
  static void decode(const std::byte* data, const std::byte*, F32x8* out) {
    std::uint16_t bits[8];
    float lanes[8];
    std::memcpy(bits, data, sizeof bits);
    for (int i = 0; i < 8; ++i) lanes[i] = ToFloat(bits[i]);
    out[0] = load8(lanes);
  }
};
template <> struct Codec<WeightFormat::f16> : HalfCodec<blocks::f16_to_float> {};
template <> struct Codec<WeightFormat::bf16> : HalfCodec<blocks::bf16_to_float> {};

// A block format, by a scalar function of the block.
template <int Bytes, void (*Decode)(const std::uint8_t*, float*)>
struct BlockCodec {
  static constexpr int kUnit = blocks::kBlock;
  static constexpr int kBytes = Bytes;
  static constexpr bool kScales = false;
  static void decode(const std::byte* data, const std::byte*, F32x8* out) {
    float values[blocks::kBlock];
    Decode(reinterpret_cast<const std::uint8_t*>(data), values);
    for (int i = 0; i < 4; ++i) out[i] = load8(values + 8 * i);
  }
};
template <> struct Codec<WeightFormat::q8_0> : BlockCodec<blocks::kQ8Bytes, blocks::decode_q8_0> {};
template <> struct Codec<WeightFormat::q4_0> : BlockCodec<blocks::kQ4Bytes, blocks::decode_q4_0> {};
template <> struct Codec<WeightFormat::mxfp4> : BlockCodec<blocks::kMxfp4Bytes, blocks::decode_mxfp4> {};

template <>
struct Codec<WeightFormat::mxfp4_split> {
  static constexpr int kUnit = blocks::kBlock;
  static constexpr int kBytes = blocks::kMxfp4CodeBytes;
  static constexpr bool kScales = true;
  static void decode(const std::byte* data, const std::byte* scale, F32x8* out) {
    float values[blocks::kBlock];
    blocks::decode_mxfp4_hf(reinterpret_cast<const std::uint8_t*>(data), static_cast<std::uint8_t>(*scale), values);
    for (int i = 0; i < 4; ++i) out[i] = load8(values + 8 * i);
  }
};

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
