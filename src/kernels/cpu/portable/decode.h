// Stored weights to vectors of floats, through the scalar codecs of base/blocks.h. Same names as avx2/decode.h.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// Codec<F>: kUnit elements of a row (8, or one block of 32) lie in kBytes bytes. `decode` gives them in natural order; `scale`
// is the E8M0 byte of a format that keeps its scales apart (kScales), unused by the others.
// A format whose blocks are longer has kParts of kUnit elements in kBytes, and `decode` takes the number of the part instead.
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

template <> struct Codec<WeightFormat::q8_0> : BlockCodec<blocks::kQ8Bytes, blocks::decode_q8_0> {};
template <> struct Codec<WeightFormat::q4_0> : BlockCodec<blocks::kQ4Bytes, blocks::decode_q4_0> {};
template <> struct Codec<WeightFormat::mxfp4> : BlockCodec<blocks::kMxfp4Bytes, blocks::decode_mxfp4> {};
template <> struct Codec<WeightFormat::q4_1> : BlockCodec<blocks::kQ41Bytes, blocks::decode_q4_1> {};
template <> struct Codec<WeightFormat::iq4_nl> : BlockCodec<blocks::kIq4NlBytes, blocks::decode_iq4_nl> {};
template <> struct Codec<WeightFormat::nvfp4> : PartCodec<2, blocks::kNvfp4Bytes, blocks::decode_nvfp4> {};
template <> struct Codec<WeightFormat::q4_k> : PartCodec<blocks::kSuperParts, blocks::kQ4kBytes, blocks::decode_q4_k> {};
template <> struct Codec<WeightFormat::q5_k> : PartCodec<blocks::kSuperParts, blocks::kQ5kBytes, blocks::decode_q5_k> {};
template <> struct Codec<WeightFormat::q6_k> : PartCodec<blocks::kSuperParts, blocks::kQ6kBytes, blocks::decode_q6_k> {};

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
