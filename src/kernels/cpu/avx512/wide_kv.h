// Elements of KV pages to vectors of sixteen floats, exactly.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// `pair`: eight elements from `low`, then eight from `high`. `run`: sixteen neighbours.
template <KvFormat F>
struct WideKv;

template <>
struct WideKv<KvFormat::f32> {
  static __m512 pair(const std::byte* low, const std::byte* high) {
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(reinterpret_cast<const float*>(low))),
                              _mm256_loadu_ps(reinterpret_cast<const float*>(high)), 1);
  }
  static __m512 run(const std::byte* from) { return _mm512_loadu_ps(from); }
};

template <>
struct WideKv<KvFormat::f16> {
  static __m512 pair(const std::byte* low, const std::byte* high) { return _mm512_cvtph_ps(two_loads(low, high)); }
  static __m512 run(const std::byte* from) { return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))); }
  static __m256i two_loads(const std::byte* low, const std::byte* high) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(low))),
                                   _mm_loadu_si128(reinterpret_cast<const __m128i*>(high)), 1);
  }
};

template <>
struct WideKv<KvFormat::bf16> {
  static __m512 wide(__m256i bits) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16)); }
  static __m512 pair(const std::byte* low, const std::byte* high) { return wide(WideKv<KvFormat::f16>::two_loads(low, high)); }
  static __m512 run(const std::byte* from) { return wide(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))); }
};

template <>
struct WideKv<KvFormat::q8> {
  static __m512 wide(__m128i codes) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(codes)); }
  static __m512 pair(const std::byte* low, const std::byte* high) {
    return wide(_mm_unpacklo_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(low)), _mm_loadl_epi64(reinterpret_cast<const __m128i*>(high))));
  }
  static __m512 run(const std::byte* from) { return wide(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))); }
};

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
