// Elements of KV pages to vectors of floats and back, in NEON registers. Same names as portable/kv_form.h.
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
  static void store(std::byte* to, F32x8 x) { store8(reinterpret_cast<float*>(to), x); }
};

template <>
struct KvForm<KvFormat::f16> {
  static constexpr int kBytes = 2;
  static F32x8 load(const std::byte* from) {
    const float16x8_t bits = vreinterpretq_f16_u16(vld1q_u16(reinterpret_cast<const std::uint16_t*>(from)));
    return {vcvt_f32_f16(vget_low_f16(bits)), vcvt_high_f32_f16(bits)};
  }
  static void store(std::byte* to, F32x8 x) {
    const float16x8_t bits = vcvt_high_f16_f32(vcvt_f16_f32(x.lo), x.hi);
    vst1q_u16(reinterpret_cast<std::uint16_t*>(to), vreinterpretq_u16_f16(bits));
  }
};

template <>
struct KvForm<KvFormat::bf16> {
  static constexpr int kBytes = 2;
  static F32x8 load(const std::byte* from) {
    const uint16x8_t bits = vld1q_u16(reinterpret_cast<const std::uint16_t*>(from));
    return {vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(bits), 16)), vreinterpretq_f32_u32(vshll_high_n_u16(bits, 16))};
  }
  static void store(std::byte* to, F32x8 x) {
    float lanes[8];
    store8(lanes, x);
    for (int i = 0; i < 8; ++i) {
      const std::uint16_t bits = blocks::float_to_bf16(lanes[i]);
      std::memcpy(to + 2 * i, &bits, 2);
    }
  }
};

template <>
struct KvForm<KvFormat::q8> {
  static constexpr int kBytes = 1;
  static F32x8 load(const std::byte* from) {
    const int16x8_t wide = vmovl_s8(vld1_s8(reinterpret_cast<const std::int8_t*>(from)));
    return {vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide))), vcvtq_f32_s32(vmovl_high_s16(wide))};
  }
};

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
