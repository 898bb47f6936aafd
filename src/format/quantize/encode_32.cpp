// Encoders of blocks of 32.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "base/blocks.h"
#include "format/quantize/encoders.h"
#include "format/quantize/fit.h"

namespace plumb::format::quantize {
namespace {

constexpr int kBlock = blocks::kBlock;
constexpr int kHalf = kBlock / 2;

float put_f16(float value, std::uint8_t* to) {
  // A fit may go a little beyond the largest value; the limit of the values themselves is the caller's.
  const std::uint16_t bits = blocks::float_to_f16(std::clamp(value, -65504.0F, 65504.0F));
  std::memcpy(to, &bits, 2);
  return blocks::f16_to_float(bits);
}

void put_nibbles(const int* codes, std::uint8_t* to) {
  for (int j = 0; j < kHalf; ++j) to[j] = static_cast<std::uint8_t>(codes[j] | codes[j + kHalf] << 4);
}

}  // namespace

void encode_q4_0(const float* values, std::uint8_t* block) {
  const std::span<const float> run(values, kBlock);
  float weights[kBlock];
  error_weights(run, weights);
  const float inverse = inverse_of(put_f16(fit_scale(run, weights, -8, 7), block));
  int codes[kBlock];
  for (int i = 0; i < kBlock; ++i) codes[i] = nearest_code(values[i], inverse, -8, 7) + 8;
  put_nibbles(codes, block + 2);
}

void encode_q4_1(const float* values, std::uint8_t* block) {
  const std::span<const float> run(values, kBlock);
  float weights[kBlock];
  error_weights(run, weights);
  const ScaleMin fit = fit_scale_min(run, weights, 15, false);
  const float inverse = inverse_of(put_f16(fit.scale, block));
  const float offset = put_f16(-fit.min, block + 2);
  int codes[kBlock];
  for (int i = 0; i < kBlock; ++i) codes[i] = nearest_code(values[i] - offset, inverse, 0, 15);
  put_nibbles(codes, block + 4);
}

void encode_iq4_nl(const float* values, std::uint8_t* block) {
  const std::span<const float> run(values, kBlock);
  float weights[kBlock];
  error_weights(run, weights);
  const float inverse = inverse_of(put_f16(fit_table_scale(run, weights, blocks::kIq4Nl), block));
  int codes[kBlock];
  for (int i = 0; i < kBlock; ++i) codes[i] = nearest_in_table(values[i] * inverse, blocks::kIq4Nl);
  put_nibbles(codes, block + 2);
}

void encode_mxfp4(const float* values, std::uint8_t* block) {
  float weights[kBlock];
  error_weights({values, kBlock}, weights);
  float largest = 0;
  for (int i = 0; i < kBlock; ++i) largest = std::fmax(largest, std::fabs(values[i]));
  if (largest == 0) {
    block[0] = 127;
    std::memset(block + 1, 0, kHalf);
    return;
  }
  const int rule = std::ilogb(largest) - 2 + 127;
  float best_error = INFINITY;
  for (const int scale : {rule, rule + 1, rule - 1}) {
    if (scale < 0 || scale > 254) continue;
    // Halves and doublings are exact, so codes are taken from the value over the scale.
    const float factor = blocks::e8m0_to_float(static_cast<std::uint8_t>(scale));
    int codes[kBlock];
    float error = 0;
    for (int i = 0; i < kBlock; ++i) {
      const float x = std::fabs(values[i]) / factor;
      int code = 0;
      for (int c = 0; c < 7; ++c) code += x > 0.5F * (blocks::kE2m1[c] + blocks::kE2m1[c + 1]) ? 1 : 0;
      const float off = x - blocks::kE2m1[code];
      error += weights[i] * (off * factor) * (off * factor);
      codes[i] = code | (std::signbit(values[i]) && code != 0 ? 8 : 0);
    }
    if (error < best_error) {
      best_error = error;
      block[0] = static_cast<std::uint8_t>(scale);
      put_nibbles(codes, block + 1);
    }
  }
}

}  // namespace plumb::format::quantize
