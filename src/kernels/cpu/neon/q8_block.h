// Integer dot products of a packed block (eight rows, 32 elements) with q8 activations, and the quantiser. Same names as
// portable/q8_block.h, and the same bits: all of it is exact in integers. How bytes are multiplied is <level>_sums.h: any NEON,
// with sdot, with smmla.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// acc[r] += (eight integer sums, as floats, times row r's scale) times the weights' scales.
inline void add_scaled(const int32x4_t (&sums)[2], const Q8Block& x, F32x8 scales, F32x8& acc) {
  acc.lo = vfmaq_f32(acc.lo, vmulq_n_f32(vcvtq_f32_s32(sums[0]), x.scale), scales.lo);
  acc.hi = vfmaq_f32(acc.hi, vmulq_n_f32(vcvtq_f32_s32(sums[1]), x.scale), scales.hi);
}

// Adds the products of signed weights with block b of R rows of activations. w[v][h]: elements 4v..4v + 3 of rows 4h..4h + 3.
template <int R>
inline void add_products(const int8x16_t (&w)[8][2], F32x8 scales, const Q8Block* const (&x)[R], std::int64_t b, F32x8 (&acc)[R]) {
  int32x4_t sums[R][2];
  packed_sums<R>(w, x, b, sums);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) add_scaled(sums[r], x[r][b], scales, acc[r]);
}

// A block of eight packed rows. `add` adds its products with block b of R rows of activations to acc[r], in one rounding order
// whatever R is.
template <WeightFormat F>
struct PackedBlock;

// The 32 codes of each row from nibbles: `value` turns 16 nibbles into 16 signed bytes.
template <class Value>
inline void nibble_weights(const std::byte* data, Value&& value, int8x16_t (&w)[8][2]) {
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v) {
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      const uint8x16_t codes = load_16_bytes(data + 32 * v + 16 * h);
      w[v][h] = value(low_nibbles(codes));
      w[v + 4][h] = value(high_nibbles(codes));
    }
  }
}

template <>
struct PackedBlock<WeightFormat::mxfp4_r8> {
  template <int R>
  static void add(const std::byte* data, const std::byte* scales, const Q8Block* const (&x)[R], std::int64_t b, F32x8 (&acc)[R]) {
    int8x16_t w[8][2];
    nibble_weights(data, [](uint8x16_t nibbles) { return doubled_e2m1(nibbles); }, w);
    const uint16x8_t exponents = vmovl_u8(vld1_u8(reinterpret_cast<const std::uint8_t*>(scales)));
    const F32x8 factors = {vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(vget_low_u16(exponents)), 23)),
                           vreinterpretq_f32_u32(vshlq_n_u32(vmovl_high_u16(exponents), 23))};
    add_products<R>(w, factors, x, b, acc);
  }
};

template <>
struct PackedBlock<WeightFormat::q4_0_r8> {
  template <int R>
  static void add(const std::byte* data, const std::byte* scales, const Q8Block* const (&x)[R], std::int64_t b, F32x8 (&acc)[R]) {
    int8x16_t w[8][2];
    nibble_weights(data, [](uint8x16_t nibbles) { return vreinterpretq_s8_u8(vsubq_u8(nibbles, vdupq_n_u8(8))); }, w);
    add_products<R>(w, f16_to_f32(load_8_halves(scales)), x, b, acc);
  }
};

template <>
struct PackedBlock<WeightFormat::q8_0_r8> {
  template <int R>
  static void add(const std::byte* data, const std::byte* scales, const Q8Block* const (&x)[R], std::int64_t b, F32x8 (&acc)[R]) {
    int8x16_t w[8][2];
#pragma GCC unroll 8
    for (int v = 0; v < 8; ++v) {
      w[v][0] = vreinterpretq_s8_u8(load_16_bytes(data + 32 * v));
      w[v][1] = vreinterpretq_s8_u8(load_16_bytes(data + 32 * v + 16));
    }
    add_products<R>(w, f16_to_f32(load_8_halves(scales)), x, b, acc);
  }
};

// One block of quantize.h.
inline void quantize_block(const float* x, Q8Block& out) {
  float32x4_t v[8];
  // The magnitudes of floats are ordered as their bits, and what is not finite is above them all.
  uint32x4_t largest = vdupq_n_u32(0);
  for (int i = 0; i < 8; ++i) {
    v[i] = vld1q_f32(x + 4 * i);
    largest = vmaxq_u32(largest, vandq_u32(vreinterpretq_u32_f32(v[i]), vdupq_n_u32(0x7FFFFFFF)));
  }
  const std::uint32_t bits = vmaxvq_u32(largest);
  const float top = std::bit_cast<float>(bits);
  const bool finite = bits < 0x7F800000U;
  if (!finite || top < kQ8Smallest) {
    std::memset(&out, 0, sizeof out);
    out.scale = finite ? 0.0F : std::numeric_limits<float>::quiet_NaN();
    return;
  }
  out.scale = top / static_cast<float>(kQ8MaxCode);
  const float inverse = static_cast<float>(kQ8MaxCode) / top;
  int32x4_t total = vdupq_n_s32(0);  // lane k: of the codes with k % 4 == k
  int16x8_t halves[4];
  for (int i = 0; i < 4; ++i) {
    const int32x4_t a = vcvtnq_s32_f32(vmulq_n_f32(v[2 * i], inverse));
    const int32x4_t b = vcvtnq_s32_f32(vmulq_n_f32(v[2 * i + 1], inverse));
    total = vaddq_s32(total, vaddq_s32(a, b));
    halves[i] = vcombine_s16(vmovn_s32(a), vmovn_s32(b));
  }
  vst1q_s8(out.codes, vcombine_s8(vmovn_s16(halves[0]), vmovn_s16(halves[1])));
  vst1q_s8(out.codes + 16, vcombine_s8(vmovn_s16(halves[2]), vmovn_s16(halves[3])));
  const int32x4_t pairs = vnegq_s32(vpaddq_s32(total, total));
  out.sums[0] = static_cast<std::int16_t>(vgetq_lane_s32(pairs, 0));
  out.sums[1] = static_cast<std::int16_t>(vgetq_lane_s32(pairs, 1));
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
