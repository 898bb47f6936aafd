// Elements of KV pages to vectors of floats and back, in registers. Same names as portable/kv_form.h.
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
  static void store(std::byte* to, F32x8 x) { _mm256_storeu_ps(reinterpret_cast<float*>(to), x.v); }
};

template <>
struct KvForm<KvFormat::f16> {
  static constexpr int kBytes = 2;
  static F32x8 load(const std::byte* from) { return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)))}; }
  static void store(std::byte* to, F32x8 x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
};

template <>
struct KvForm<KvFormat::bf16> {
  static constexpr int kBytes = 2;
  static F32x8 load(const std::byte* from) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16))};
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
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))))};
  }
};

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
