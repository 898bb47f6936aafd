// q8_block.h goes on: packed formats with a table, with a minimum, and those of 256 elements.
//
// A part's integer scale is multiplied into its 32-bit sums. The minimum of a part meets the sum of the activations' codes, which
// Q8Block carries.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// Eight bytes as 32-bit lanes.
inline void widen_bytes(const std::byte* from, int32x4_t (&lanes)[2]) {
  const uint16x8_t halves = vmovl_u8(vld1_u8(reinterpret_cast<const std::uint8_t*>(from)));
  lanes[0] = vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(halves)));
  lanes[1] = vreinterpretq_s32_u32(vmovl_high_u16(halves));
}
inline void widen_signed_bytes(const std::byte* from, int32x4_t (&lanes)[2]) {
  const int16x8_t halves = vmovl_s8(vld1_s8(reinterpret_cast<const std::int8_t*>(from)));
  lanes[0] = vmovl_s16(vget_low_s16(halves));
  lanes[1] = vmovl_high_s16(halves);
}

// acc[r] += x.scale * (d * scale * sum(w * x) - dmin * min * sum(x)) of block b.
template <int R>
inline void add_min_products(const int8x16_t (&w)[8][2], const int32x4_t (&scale)[2], const int32x4_t (&min)[2], F32x8 d, F32x8 dmin,
                             const Q8Block* const (&x)[R], std::int64_t b, F32x8 (&acc)[R]) {
  int32x4_t sums[R][2];
  packed_sums<R>(w, x, b, sums);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    const Q8Block& block = x[r][b];
    const std::int32_t total = block.sums[0] + block.sums[1];  // minus the sum of the codes
    const F32x8 products = {vcvtq_f32_s32(vmulq_s32(sums[r][0], scale[0])), vcvtq_f32_s32(vmulq_s32(sums[r][1], scale[1]))};
    const F32x8 below = {vcvtq_f32_s32(vmulq_n_s32(min[0], total)), vcvtq_f32_s32(vmulq_n_s32(min[1], total))};
    acc[r] = mul_add(mul_add(below, dmin, products * d), splat(block.scale), acc[r]);
  }
}

// Zeros for the weights of the other half of a part.
inline void keep_half(int8x16_t (&w)[8][2], int half) {
  for (int v = 0; v < 4; ++v) w[v + 4 * (1 - half)][0] = w[v + 4 * (1 - half)][1] = vdupq_n_s8(0);
}

inline int8x16_t plain_nibbles(uint8x16_t nibbles) { return vreinterpretq_s8_u8(nibbles); }

template <>
struct PackedBlock<WeightFormat::iq4_nl_r8> {
  template <int R>
  static void add(const std::byte* data, const std::byte* scales, const Q8Block* const (&x)[R], std::int64_t b, F32x8 (&acc)[R]) {
    int8x16_t w[8][2];
    nibble_weights(data, [](uint8x16_t nibbles) { return iq4_nl_values(nibbles); }, w);
    add_products<R>(w, f16_to_f32(load_8_halves(scales)), x, b, acc);
  }
};

template <>
struct PackedBlock<WeightFormat::q4_1_r8> {
  template <int R>
  static void add(const std::byte* data, const std::byte* scales, const Q8Block* const (&x)[R], std::int64_t b, F32x8 (&acc)[R]) {
    const int32x4_t ones[2] = {vdupq_n_s32(1), vdupq_n_s32(1)};
    int8x16_t w[8][2];
    nibble_weights(data, plain_nibbles, w);
    const F32x8 offset = f16_to_f32(load_8_halves(scales + 16));
    add_min_products<R>(w, ones, ones, f16_to_f32(load_8_halves(scales)), {vnegq_f32(offset.lo), vnegq_f32(offset.hi)}, x, b, acc);
  }
};

template <>
struct PackedBlock<WeightFormat::nvfp4_r8> {
  // A scale belongs to 16 elements, half of a part: each half is summed with zeros for the other.
  template <int R>
  static void add(const std::byte* data, const std::byte* scales, const Q8Block* const (&x)[R], std::int64_t b, F32x8 (&acc)[R]) {
#pragma GCC unroll 1
    for (int sub = 0; sub < 4; ++sub) {
      int8x16_t w[8][2];
      nibble_weights(data + 128 * (sub / 2), [](uint8x16_t nibbles) { return doubled_e2m1(nibbles); }, w);
      keep_half(w, sub % 2);
      add_products<R>(w, f16_to_f32(load_8_halves(scales + 16 * sub)), x, b + sub / 2, acc);
    }
  }
};

// Ors bits `Mask` of the codes, moved there from `bit` upwards of `upper`, into the weights.
template <int Mask>
inline void add_upper(uint8x16_t upper, int bit, int8x16_t& w) {
  const uint8x16_t moved = vshlq_u8(upper, vdupq_n_s8(static_cast<std::int8_t>(4 - bit)));  // a negative count shifts right
  w = vorrq_s8(w, vreinterpretq_s8_u8(vandq_u8(moved, vdupq_n_u8(Mask))));
}

// Blocks of 256 with a scale and a minimum for each part; UpperBits: 0 or 1 beside the nibbles of a code.
template <int UpperBits>
struct MinSuperBlock {
  template <int R>
  static void add(const std::byte* data, const std::byte* scales, const Q8Block* const (&x)[R], std::int64_t b, F32x8 (&acc)[R]) {
    const F32x8 d = f16_to_f32(load_8_halves(scales));
    const F32x8 dmin = f16_to_f32(load_8_halves(scales + 16));
#pragma GCC unroll 1
    for (int p = 0; p < blocks::kSuperParts; ++p, data += 8 * (16 + 4 * UpperBits)) {
      int8x16_t w[8][2];
      nibble_weights(data, plain_nibbles, w);
      if constexpr (UpperBits > 0) {
        const uint8x16_t upper[2] = {load_16_bytes(data + 128), load_16_bytes(data + 144)};
        for (int v = 0; v < 8; ++v) {
          for (int h = 0; h < 2; ++h) add_upper<16>(upper[h], v, w[v][h]);
        }
      }
      int32x4_t scale[2], min[2];
      widen_bytes(scales + 32 + 16 * p, scale);
      widen_bytes(scales + 40 + 16 * p, min);
      add_min_products<R>(w, scale, min, d, dmin, x, b + p, acc);
    }
  }
};
template <> struct PackedBlock<WeightFormat::q4_k_r8> : MinSuperBlock<0> {};
template <> struct PackedBlock<WeightFormat::q5_k_r8> : MinSuperBlock<1> {};

template <>
struct PackedBlock<WeightFormat::q6_k_r8> {
  // Halves as in nvfp4_r8.
  template <int R>
  static void add(const std::byte* data, const std::byte* scales, const Q8Block* const (&x)[R], std::int64_t b, F32x8 (&acc)[R]) {
    const F32x8 d = f16_to_f32(load_8_halves(scales));
#pragma GCC unroll 1
    for (int p = 0; p < blocks::kSuperParts; ++p, data += 192) {
      int8x16_t w[8][2];
      nibble_weights(data, plain_nibbles, w);
      for (int v = 0; v < 8; ++v) {
        for (int h = 0; h < 2; ++h) {
          add_upper<48>(load_16_bytes(data + 128 + 32 * (v / 4) + 16 * h), 2 * (v % 4), w[v][h]);
          w[v][h] = vsubq_s8(w[v][h], vdupq_n_s8(32));
        }
      }
      int32x4_t total[R][2];
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        int8x16_t of_half[8][2];
        std::memcpy(of_half, w, sizeof w);
        keep_half(of_half, half);
        int32x4_t scale[2], sums[R][2];
        widen_signed_bytes(scales + 16 + 8 * (2 * p + half), scale);
        packed_sums<R>(of_half, x, b + p, sums);
        for (int r = 0; r < R; ++r) {
          for (int h = 0; h < 2; ++h) {
            const int32x4_t scaled = vmulq_s32(sums[r][h], scale[h]);
            total[r][h] = half == 0 ? scaled : vaddq_s32(total[r][h], scaled);
          }
        }
      }
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) add_scaled(total[r], x[r][b + p], d, acc[r]);
    }
  }
};

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
