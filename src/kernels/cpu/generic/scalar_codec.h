// Codecs (decode.h of an instruction set says what they are) through the scalar functions of base/: what a set derives from for a
// format that it has no vector code for.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// A block of 32 elements with its scale inside.
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

// A block of several parts of 32 elements, of which one at a time is decoded.
template <int Parts, int Bytes, void (*Decode)(const std::uint8_t*, int, float*)>
struct PartCodec {
  static constexpr int kUnit = 32;
  static constexpr int kParts = Parts;
  static constexpr int kBytes = Bytes;
  static void decode(const std::byte* data, int part, F32x8* out) {
    float values[kUnit];
    Decode(reinterpret_cast<const std::uint8_t*>(data), part, values);
    for (int i = 0; i < 4; ++i) out[i] = load8(values + 8 * i);
  }
};

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
