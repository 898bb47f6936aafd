// Integer dot products of a packed block with q8 activations, and the quantiser. Same names as avx2/q8_block.h.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// Twice the E2M1 values.
inline constexpr std::int8_t kDoubledE2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

template <WeightFormat F>
inline std::int32_t packed_code(const std::byte* data, int row, int k) {
  const int at = F == WeightFormat::q8_0_r8 ? k : k % 16;
  const auto byte = static_cast<std::uint8_t>(data[at / 4 * 32 + row * 4 + at % 4]);
  if constexpr (F == WeightFormat::q8_0_r8) return static_cast<std::int8_t>(byte);
  const int nibble = k < 16 ? byte & 15 : byte >> 4;
  if constexpr (F == WeightFormat::q4_0_r8) return nibble - 8;
  if constexpr (F == WeightFormat::iq4_nl_r8) return blocks::kIq4Nl[nibble];
  return kDoubledE2m1[nibble];
}
template <WeightFormat F>
inline float packed_scale(const std::byte* scales, int row) {
  if constexpr (F == WeightFormat::mxfp4_r8) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(scales[row]) << 23);
  } else {
    std::uint16_t bits;
    std::memcpy(&bits, scales + 2 * row, sizeof bits);
    return blocks::f16_to_float(bits);
  }
}

// A block of eight packed rows. `add` adds its products with block b of R rows of activations to acc[r].
template <WeightFormat F>
struct PackedBlock {
  template <int R>
  static void add(const std::byte* data, const std::byte* scales, const Q8Block* const (&x)[R], std::int64_t b, F32x8 (&acc)[R]) {
    std::int32_t w[8][kQ8Block];
    float factors[8];
    for (int row = 0; row < 8; ++row) {
      for (int k = 0; k < kQ8Block; ++k) w[row][k] = packed_code<F>(data, row, k);
      factors[row] = packed_scale<F>(scales, row);
    }
    for (int r = 0; r < R; ++r) {
      float sums[8];
      for (int row = 0; row < 8; ++row) {
        std::int32_t sum = 0;
        for (int k = 0; k < kQ8Block; ++k) sum += w[row][k] * x[r][b].codes[k];
        sums[row] = static_cast<float>(sum);
      }
      acc[r] = mul_add(load8(sums) * splat(x[r][b].scale), load8(factors), acc[r]);
    }
  }
};

// A half-precision scale of each of the eight rows.
inline F32x8 half_scales(const std::byte* scales) {
  float lanes[8];
  for (int row = 0; row < 8; ++row) lanes[row] = packed_scale<WeightFormat::q4_0_r8>(scales, row);
  return load8(lanes);
}

// What the formats with a minimum share. `code(row, k)` is a code; `scale` and `min` are the rows' bytes, null for 1.
// acc[r] += x.scale * (d * scale * sum(code * x) - dmin * min * sum(x)).
template <int R, class Code>
inline void add_with_min(Code&& code, const std::byte* scale, const std::byte* min, F32x8 d, F32x8 dmin, const Q8Block* const (&x)[R],
                         std::int64_t b, F32x8 (&acc)[R]) {
  const auto factor = [](const std::byte* bytes, int row) { return bytes == nullptr ? 1 : static_cast<int>(bytes[row]); };
  for (int r = 0; r < R; ++r) {
    const Q8Block& block = x[r][b];
    const int total = -(block.sums[0] + block.sums[1]);
    float products[8], mins[8];
    for (int row = 0; row < 8; ++row) {
      std::int32_t sum = 0;
      for (int k = 0; k < kQ8Block; ++k) sum += code(row, k) * block.codes[k];
      products[row] = static_cast<float>(sum * factor(scale, row));
      mins[row] = static_cast<float>(total * factor(min, row));
    }
    const F32x8 part = load8(products) * d - load8(mins) * dmin;
    acc[r] = mul_add(part, splat(block.scale), acc[r]);
  }
}

inline int interleaved_byte(const std::byte* data, int row, int at) { return static_cast<std::uint8_t>(data[at / 4 * 32 + row * 4 + at % 4]); }
// Code k of a part of a block of 256, and its upper bits.
inline int part_code(const std::byte* data, int row, int k, int upper_bits) {
  const int byte = interleaved_byte(data, row, k % 16);
  int code = k < 16 ? byte & 15 : byte >> 4;
  if (upper_bits == 1) code |= (interleaved_byte(data, row, 16 + k % 4) >> (k / 4) & 1) << 4;
  if (upper_bits == 2) code |= (interleaved_byte(data, row, 16 + 4 * (k / 16) + k % 4) >> (2 * (k / 4 % 4)) & 3) << 4;
  return code;
}

template <>
struct PackedBlock<WeightFormat::q4_1_r8> {
  template <int R>
  static void add(const std::byte* data, const std::byte* scales, const Q8Block* const (&x)[R], std::int64_t b, F32x8 (&acc)[R]) {
    const auto code = [&](int row, int k) { return part_code(data, row, k, 0); };
    add_with_min<R>(code, nullptr, nullptr, half_scales(scales), zero8() - half_scales(scales + 16), x, b, acc);
  }
};

template <>
struct PackedBlock<WeightFormat::nvfp4_r8> {
  template <int R>
  static void add(const std::byte* data, const std::byte* scales, const Q8Block* const (&x)[R], std::int64_t b, F32x8 (&acc)[R]) {
    for (int sub = 0; sub < 4; ++sub) {
      const F32x8 d = half_scales(scales + 16 * sub);
      for (int r = 0; r < R; ++r) {
        const Q8Block& block = x[r][b + sub / 2];
        float sums[8];
        for (int row = 0; row < 8; ++row) {
          std::int32_t sum = 0;
          for (int k = sub % 2 * 16; k < sub % 2 * 16 + 16; ++k) sum += kDoubledE2m1[part_code(data + sub / 2 * 128, row, k, 0)] * block.codes[k];
          sums[row] = static_cast<float>(sum);
        }
        acc[r] = mul_add(load8(sums) * splat(block.scale), d, acc[r]);
      }
    }
  }
};

template <int UpperBits>
struct MinSuperBlock {
  template <int R>
  static void add(const std::byte* data, const std::byte* scales, const Q8Block* const (&x)[R], std::int64_t b, F32x8 (&acc)[R]) {
    for (int p = 0; p < blocks::kSuperParts; ++p) {
      const std::byte* part = data + p * 8 * (16 + 4 * UpperBits);
      const std::byte* pair = scales + 32 + 16 * p;
      const auto code = [&](int row, int k) { return part_code(part, row, k, UpperBits); };
      add_with_min<R>(code, pair, pair + 8, half_scales(scales), half_scales(scales + 16), x, b + p, acc);
    }
  }
};
template <> struct PackedBlock<WeightFormat::q4_k_r8> : MinSuperBlock<0> {};
template <> struct PackedBlock<WeightFormat::q5_k_r8> : MinSuperBlock<1> {};

template <>
struct PackedBlock<WeightFormat::q6_k_r8> {
  template <int R>
  static void add(const std::byte* data, const std::byte* scales, const Q8Block* const (&x)[R], std::int64_t b, F32x8 (&acc)[R]) {
    const F32x8 d = half_scales(scales);
    for (int p = 0; p < blocks::kSuperParts; ++p) {
      for (int r = 0; r < R; ++r) {
        const Q8Block& block = x[r][b + p];
        float sums[8];
        for (int row = 0; row < 8; ++row) {
          std::int32_t halves[2] = {0, 0};
          for (int k = 0; k < kQ8Block; ++k) halves[k / 16] += (part_code(data + p * 192, row, k, 2) - 32) * block.codes[k];
          const auto scale = [&](int half) { return static_cast<std::int8_t>(scales[16 + 8 * (2 * p + half) + row]); };
          sums[row] = static_cast<float>(halves[0] * scale(0) + halves[1] * scale(1));
        }
        acc[r] = mul_add(load8(sums) * splat(block.scale), d, acc[r]);
      }
    }
  }
};

// One block of quantize.h.
inline void quantize_block(const float* x, Q8Block& out) {
  float largest = 0;
  bool finite = true;
  for (int k = 0; k < kQ8Block; ++k) {
    const float magnitude = std::fabs(x[k]);
    finite = finite && magnitude <= std::numeric_limits<float>::max();
    largest = magnitude > largest ? magnitude : largest;
  }
  std::memset(&out, 0, sizeof out);
  out.scale = finite ? 0.0F : std::numeric_limits<float>::quiet_NaN();
  if (!finite || largest < kQ8Smallest) return;
  out.scale = largest / static_cast<float>(kQ8MaxCode);
  const float inverse = static_cast<float>(kQ8MaxCode) / largest;
  for (int k = 0; k < kQ8Block; ++k) {
    out.codes[k] = static_cast<std::int8_t>(std::nearbyint(x[k] * inverse));
    out.sums[k % 4 / 2] = static_cast<std::int16_t>(out.sums[k % 4 / 2] - out.codes[k]);
  }
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
