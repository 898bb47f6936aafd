// Elements of KV pages to vectors of floats and back, through the scalar codecs of base/blocks.h. Same names as avx2/kv_form.h.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// KvForm<F>: `load` gives eight elements without their scale, exactly; `store` rounds to nearest even. q8 is stored by a row
// (generic/kv_append.h).
template <KvFormat F>
struct KvForm;

template <>
struct KvForm<KvFormat::f32> {
  static constexpr int kBytes = 4;
  static F32x8 load(const std::byte* from) { return load8(from); }
  static void store(std::byte* to, F32x8 x) { std::memcpy(to, &x, sizeof x); }
};

template <float (*ToFloat)(std::uint16_t), std::uint16_t (*FromFloat)(float)>
struct HalfKvForm {
  static constexpr int kBytes = 2;
  static F32x8 load(const std::byte* from) {
    std::uint16_t bits[8];
    float lanes[8];
    std::memcpy(bits, from, sizeof bits);
    for (int i = 0; i < 8; ++i) lanes[i] = ToFloat(bits[i]);
    return load8(lanes);
  }
  static void store(std::byte* to, F32x8 x) {
    std::uint16_t bits[8];
    float lanes[8];
    store8(lanes, x);
    for (int i = 0; i < 8; ++i) bits[i] = FromFloat(lanes[i]);
    std::memcpy(to, bits, sizeof bits);
  }
};
template <> struct KvForm<KvFormat::f16> : HalfKvForm<blocks::f16_to_float, blocks::float_to_f16> {};
template <> struct KvForm<KvFormat::bf16> : HalfKvForm<blocks::bf16_to_float, blocks::float_to_bf16> {};

template <>
struct KvForm<KvFormat::q8> {
  static constexpr int kBytes = 1;
  static F32x8 load(const std::byte* from) {
    float lanes[8];
    for (int i = 0; i < 8; ++i) lanes[i] = static_cast<float>(static_cast<std::int8_t>(from[i]));
    return load8(lanes);
  }
};

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
