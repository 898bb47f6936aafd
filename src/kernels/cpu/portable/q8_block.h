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
