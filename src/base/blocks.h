// Scalar codecs of the stored number formats. This file is the specification that fast kernels are held to: every
// decode is exact (each stored value is representable in float), every encode states its rounding.
//
// Layouts (all little-endian):
//   mxfp4 HF     blocks u8[.., 16] and scales u8[..] apart; byte b of a block: low nibble = element 2b, high = element
//   2b+1. mxfp4 ggml   17 bytes: scale, then 16 bytes; byte j: low nibble = element j, high nibble = element j + 16.
//                Both: value = E2M1[nibble] * 2^(scale - 127), OCP Microscaling Formats 1.0; scale 0xFF is NaN.
//   q8_0         34 bytes: f16 scale d, then 32 int8 q; value = d * q.
//   q4_0         18 bytes: f16 scale d, then 16 bytes; low nibble j = element j, high = element j + 16; value = d *
//   (nibble - 8).
//   q4_1         20 bytes: f16 scale d, f16 offset m, then 16 bytes of nibbles as in q4_0; value = d * nibble + m.
//   iq4_nl       18 bytes: f16 scale d, then 16 bytes of nibbles as in q4_0; value = d * kIq4Nl[nibble].
//   nvfp4        36 bytes for 64 elements: 4 UE4M3 scales (E4M3 without a sign), then 8 bytes for each 16 elements; byte j:
//                low nibble = element j, high = element j + 8; value = scale * E2M1[nibble].
//   The ggml layouts are those of its published block definitions. Blocks of 256 are in base/super_blocks.h.
// Decoding q4_1 gives the exact value rounded once to float, as an addition is no exact operation.
//
// Thread rule: pure functions.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace plumb::blocks {

inline constexpr int kBlock = 32;           // elements of one mxfp4, q8_0 or q4_0 block
inline constexpr int kMxfp4CodeBytes = 16;  // nibble bytes of one block, either layout
inline constexpr int kMxfp4Bytes = 17;      // ggml layout: scale + codes
inline constexpr int kQ8Bytes = 34;
inline constexpr int kQ4Bytes = 18;
inline constexpr int kQ41Bytes = 20;
inline constexpr int kIq4NlBytes = 18;
inline constexpr int kNvfp4Block = 64;
inline constexpr int kNvfp4Bytes = 36;
inline constexpr std::uint8_t kE8m0Nan = 0xFF;

// E2M1: sign, two exponent bits, one mantissa bit.
inline constexpr float kE2m1[16] = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                    -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};

// The sixteen values of iq4_nl: denser around zero, where most weights are.
inline constexpr std::int8_t kIq4Nl[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

inline float bf16_to_float(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

// Round to nearest even; overflow becomes infinity; a NaN stays a NaN (made quiet).
std::uint16_t float_to_bf16(float value);

// IEEE binary16, subnormals included.
float f16_to_float(std::uint16_t bits);

// Round to nearest even, subnormals included; magnitudes of 65520 and above become infinity; a NaN stays a (quiet) NaN.
std::uint16_t float_to_f16(float value);

// 2^(scale - 127). 0 gives 2^-127 (a float subnormal, exact); 0xFF gives NaN.
float e8m0_to_float(std::uint8_t scale);

// UE4M3: four exponent bits (bias 7), three mantissa bits, subnormals. 0x7F is NaN; the sign bit must be 0.
inline float ue4m3_to_float(std::uint8_t scale) {
  if (scale >= 0x7F) return std::bit_cast<float>(0x7FC00000U);
  if (scale < 8) return static_cast<float>(scale) * 0x1p-9F;
  return std::bit_cast<float>((static_cast<std::uint32_t>(scale) + (120U << 3)) << 20);
}

// One block of 32 values. HF layout, codes[16].
void decode_mxfp4_hf(const std::uint8_t* codes, std::uint8_t scale, float* out);

// Encodes 32 values. The scale is 2^(floor(log2(max |v|)) - 2), 2 being the exponent of E2M1's largest value (OCP
// MX 1.0, section 6.3), raised to at least 2^-127; codes are the nearest E2M1 values, ties to the even code, saturating
// at 6. An all-zero block gets scale byte 127. REQUIRES: finite values. Returns the scale byte.
std::uint8_t encode_mxfp4_hf(const float* values, std::uint8_t* codes);

// ggml layout, one block of 17 bytes.
void decode_mxfp4(const std::uint8_t* block, float* out);
void encode_mxfp4(const float* values, std::uint8_t* block);

// Moves the 32 codes of one block between the layouts; nothing is rounded. In-place use (hf == ggml) is not allowed.
void renibble_hf_to_ggml(const std::uint8_t* hf_codes, std::uint8_t* ggml_codes);
void renibble_ggml_to_hf(const std::uint8_t* ggml_codes, std::uint8_t* hf_codes);

// One block of 34 bytes. Encode: d = max|v| / 127 as f16, q = round(v / d) half away from zero with the unrounded d, as
// the files in circulation were made. REQUIRES (encode): finite values with max|v| <= 127 * 65504.
void decode_q8_0(const std::uint8_t* block, float* out);
void encode_q8_0(const float* values, std::uint8_t* block);

// One block of 18 bytes. Encode: d = (the value of largest magnitude) / -8 as f16, nibble = min(15, trunc(v / d
// + 8.5)). REQUIRES (encode): finite values with max|v| <= 8 * 65504.
void decode_q4_0(const std::uint8_t* block, float* out);
void encode_q4_0(const float* values, std::uint8_t* block);

// One block of 20 or 18 bytes.
void decode_q4_1(const std::uint8_t* block, float* out);
void decode_iq4_nl(const std::uint8_t* block, float* out);
// Half `part` (32 values) of a block of 36 bytes.
void decode_nvfp4(const std::uint8_t* block, int part, float* out);

// First index of an E8M0 NaN among separate scale bytes, or nullopt. A file with one is rejected at load.
std::optional<std::size_t> find_nan_scale(std::span<const std::uint8_t> scales);

// The same for ggml mxfp4 blocks: index of the first block whose scale is NaN. REQUIRES: blocks.size() % 17 == 0.
std::optional<std::size_t> find_nan_scale_blocks(std::span<const std::uint8_t> blocks);

// The same for nvfp4 blocks: a scale that is NaN or has its sign bit set. REQUIRES: blocks.size() % 36 == 0.
std::optional<std::size_t> find_bad_nvfp4_block(std::span<const std::uint8_t> blocks);

}  // namespace plumb::blocks
