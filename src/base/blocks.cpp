#include "base/blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace plumb::blocks {
namespace {

std::uint16_t load_u16(const std::uint8_t* bytes) {
  return static_cast<std::uint16_t>(bytes[0] | (static_cast<unsigned>(bytes[1]) << 8));
}

void store_u16(std::uint16_t value, std::uint8_t* bytes) {
  bytes[0] = static_cast<std::uint8_t>(value & 0xFF);
  bytes[1] = static_cast<std::uint8_t>(value >> 8);
}

// Nearest E2M1 code, ties to the even code (even mantissa bit). The bounds are the midpoints between neighbours; at a
// midpoint the comparison goes to the even one: 0.25 -> 0, 0.75 -> 1 (code 2), 1.25 -> 1, 1.75 -> 2, 2.5 -> 2, 3.5 ->
// 4, 5 -> 4.
std::uint8_t to_e2m1(float value) {
  const float m = std::fabs(value);
  std::uint8_t code = 0;
  if (m <= 0.25F) {
    code = 0;
  } else if (m < 0.75F) {
    code = 1;
  } else if (m <= 1.25F) {
    code = 2;
  } else if (m < 1.75F) {
    code = 3;
  } else if (m <= 2.5F) {
    code = 4;
  } else if (m < 3.5F) {
    code = 5;
  } else if (m <= 5.0F) {
    code = 6;
  } else {
    code = 7;
  }
  return static_cast<std::uint8_t>(code | (std::signbit(value) ? 8 : 0));
}

// Scale byte and the 32 codes in element order, the part that both mxfp4 layouts share.
std::uint8_t encode_codes(const float* values, std::uint8_t* element_codes) {
  float largest = 0;
  for (int i = 0; i < kBlock; ++i) largest = std::max(largest, std::fabs(values[i]));
  int exponent = 0;  // of the scale: the shared exponent minus 2, the exponent of E2M1's largest value
  if (largest > 0) exponent = std::max(std::ilogb(largest) - 2, -127);
  for (int i = 0; i < kBlock; ++i) element_codes[i] = to_e2m1(std::ldexp(values[i], -exponent));
  return static_cast<std::uint8_t>(exponent + 127);
}

}  // namespace

std::uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  const std::uint32_t odd = (bits >> 16) & 1U;  // half of the dropped bits, plus one when the kept part is odd
  return static_cast<std::uint16_t>((bits + 0x7FFFU + odd) >> 16);
}

float f16_to_float(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1FU;
  const std::uint32_t mantissa = bits & 0x3FFU;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000U | (mantissa << 13));
  if (exponent == 0) {  // subnormal: mantissa * 2^-24, exact
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112U) << 23) | (mantissa << 13));
}

std::uint16_t float_to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return static_cast<std::uint16_t>(sign | 0x7E00U | ((magnitude >> 13) & 0x3FFU));
  if (magnitude >= 0x477FF000U) return static_cast<std::uint16_t>(sign | 0x7C00U);  // 65520 and above
  if (magnitude < 0x38800000U) {
    // Below 2^-14: count in units of 2^-24. The product is exact and nearbyint rounds to even.
    const float units = std::bit_cast<float>(magnitude) * 0x1p24F;
    return static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(std::nearbyint(units)));
  }
  const std::uint32_t rebased = magnitude - (112U << 23);
  const std::uint32_t odd = (rebased >> 13) & 1U;
  return static_cast<std::uint16_t>(sign | ((rebased + 0xFFFU + odd) >> 13));
}

float e8m0_to_float(std::uint8_t scale) {
  if (scale == kE8m0Nan) return std::bit_cast<float>(0x7FC00000U);
  if (scale == 0) return 0x1p-127F;
  return std::bit_cast<float>(static_cast<std::uint32_t>(scale) << 23);
}

void decode_mxfp4_hf(const std::uint8_t* codes, std::uint8_t scale, float* out) {
  const float factor = e8m0_to_float(scale);
  for (int b = 0; b < kMxfp4CodeBytes; ++b) {
    out[2 * b] = kE2m1[codes[b] & 15] * factor;
    out[2 * b + 1] = kE2m1[codes[b] >> 4] * factor;
  }
}

std::uint8_t encode_mxfp4_hf(const float* values, std::uint8_t* codes) {
  std::uint8_t element_codes[kBlock];
  const std::uint8_t scale = encode_codes(values, element_codes);
  for (int b = 0; b < kMxfp4CodeBytes; ++b) {
    codes[b] = static_cast<std::uint8_t>(element_codes[2 * b] | (element_codes[2 * b + 1] << 4));
  }
  return scale;
}

void decode_mxfp4(const std::uint8_t* block, float* out) {
  const float factor = e8m0_to_float(block[0]);
  for (int j = 0; j < kMxfp4CodeBytes; ++j) {
    out[j] = kE2m1[block[1 + j] & 15] * factor;
    out[j + 16] = kE2m1[block[1 + j] >> 4] * factor;
  }
}

void encode_mxfp4(const float* values, std::uint8_t* block) {
  std::uint8_t element_codes[kBlock];
  block[0] = encode_codes(values, element_codes);
  for (int j = 0; j < kMxfp4CodeBytes; ++j) {
    block[1 + j] = static_cast<std::uint8_t>(element_codes[j] | (element_codes[j + 16] << 4));
  }
}

void renibble_hf_to_ggml(const std::uint8_t* hf_codes, std::uint8_t* ggml_codes) {
  for (int j = 0; j < kMxfp4CodeBytes; ++j) {
    const int shift = (j & 1) * 4;
    const unsigned low = (hf_codes[j / 2] >> shift) & 15U;
    const unsigned high = (hf_codes[j / 2 + 8] >> shift) & 15U;
    ggml_codes[j] = static_cast<std::uint8_t>(low | (high << 4));
  }
}

void renibble_ggml_to_hf(const std::uint8_t* ggml_codes, std::uint8_t* hf_codes) {
  for (int b = 0; b < kMxfp4CodeBytes; ++b) {
    const int first = (2 * b) % 16;
    const int shift = b < 8 ? 0 : 4;
    const unsigned low = (ggml_codes[first] >> shift) & 15U;
    const unsigned high = (ggml_codes[first + 1] >> shift) & 15U;
    hf_codes[b] = static_cast<std::uint8_t>(low | (high << 4));
  }
}

void decode_q8_0(const std::uint8_t* block, float* out) {
  const float d = f16_to_float(load_u16(block));
  for (int i = 0; i < kBlock; ++i) out[i] = d * static_cast<float>(static_cast<std::int8_t>(block[2 + i]));
}

void encode_q8_0(const float* values, std::uint8_t* block) {
  float largest = 0;
  for (int i = 0; i < kBlock; ++i) largest = std::max(largest, std::fabs(values[i]));
  const float d = largest / 127.0F;
  const float inverse = d > 0 ? 1.0F / d : 0.0F;
  store_u16(float_to_f16(d), block);
  for (int i = 0; i < kBlock; ++i) {
    // A subnormal d makes the inverse infinite; the clamp keeps the cast defined and the stored scale is 0 then anyway.
    const float q = std::clamp(std::round(values[i] * inverse), -127.0F, 127.0F);
    block[2 + i] = static_cast<std::uint8_t>(static_cast<std::int8_t>(std::isnan(q) ? 0.0F : q));
  }
}

void decode_q4_0(const std::uint8_t* block, float* out) {
  const float d = f16_to_float(load_u16(block));
  for (int j = 0; j < kBlock / 2; ++j) {
    out[j] = d * static_cast<float>((block[2 + j] & 15) - 8);
    out[j + 16] = d * static_cast<float>((block[2 + j] >> 4) - 8);
  }
}

void encode_q4_0(const float* values, std::uint8_t* block) {
  float extreme = 0;  // the signed value of largest magnitude: it maps to -8 exactly
  for (int i = 0; i < kBlock; ++i) {
    if (std::fabs(values[i]) > std::fabs(extreme)) extreme = values[i];
  }
  const float d = extreme / -8.0F;
  const float inverse = d != 0 ? 1.0F / d : 0.0F;
  store_u16(float_to_f16(d), block);
  const auto nibble = [&](float value) {
    const float q = value * inverse + 8.5F;
    return static_cast<unsigned>(std::isnan(q) ? 8.0F : std::clamp(q, 0.0F, 15.0F));
  };
  for (int j = 0; j < kBlock / 2; ++j) {
    block[2 + j] = static_cast<std::uint8_t>(nibble(values[j]) | (nibble(values[j + 16]) << 4));
  }
}

void decode_q4_1(const std::uint8_t* block, float* out) {
  const float d = f16_to_float(load_u16(block));
  const float m = f16_to_float(load_u16(block + 2));
  for (int j = 0; j < kBlock / 2; ++j) {
    out[j] = d * static_cast<float>(block[4 + j] & 15) + m;
    out[j + 16] = d * static_cast<float>(block[4 + j] >> 4) + m;
  }
}

void decode_iq4_nl(const std::uint8_t* block, float* out) {
  const float d = f16_to_float(load_u16(block));
  for (int j = 0; j < kBlock / 2; ++j) {
    out[j] = d * static_cast<float>(kIq4Nl[block[2 + j] & 15]);
    out[j + 16] = d * static_cast<float>(kIq4Nl[block[2 + j] >> 4]);
  }
}

void decode_nvfp4(const std::uint8_t* block, int part, float* out) {
  for (int sub = 2 * part; sub < 2 * part + 2; ++sub, out += 16) {
    const float scale = ue4m3_to_float(block[sub]);
    for (int j = 0; j < 8; ++j) {
      out[j] = scale * kE2m1[block[4 + 8 * sub + j] & 15];
      out[j + 8] = scale * kE2m1[block[4 + 8 * sub + j] >> 4];
    }
  }
}

std::optional<std::size_t> find_nan_scale(std::span<const std::uint8_t> scales) {
  const void* hit = scales.empty() ? nullptr : std::memchr(scales.data(), kE8m0Nan, scales.size());
  if (hit == nullptr) return std::nullopt;
  return static_cast<std::size_t>(static_cast<const std::uint8_t*>(hit) - scales.data());
}

std::optional<std::size_t> find_nan_scale_blocks(std::span<const std::uint8_t> blocks) {
  for (std::size_t at = 0; at < blocks.size(); at += kMxfp4Bytes) {
    if (blocks[at] == kE8m0Nan) return at / kMxfp4Bytes;
  }
  return std::nullopt;
}

std::optional<std::size_t> find_bad_nvfp4_block(std::span<const std::uint8_t> blocks) {
  for (std::size_t at = 0; at < blocks.size(); at += kNvfp4Bytes) {
    for (std::size_t sub = 0; sub < 4; ++sub) {
      if (blocks[at + sub] >= 0x7F) return at / kNvfp4Bytes;
    }
  }
  return std::nullopt;
}

}  // namespace plumb::blocks
