#include "base/blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "base/dtype.h"

namespace plumb::blocks {
namespace {

// The value of a binary16 pattern from its definition, in double.
double f16_value(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  const double m = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000) != 0 ? -m : m;
}

TEST(F16, EveryPatternDecodesAndComesBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    const float value = f16_to_float(pattern);
    if (((bits >> 10) & 31) == 31) {
      if ((bits & 1023) == 0) {
        EXPECT_TRUE(std::isinf(value));
        EXPECT_EQ(float_to_f16(value), pattern);
      } else {
        EXPECT_TRUE(std::isnan(value));
        EXPECT_TRUE(std::isnan(f16_to_float(float_to_f16(value))));
      }
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), f16_value(pattern)) << bits;
    ASSERT_EQ(std::signbit(value), (bits & 0x8000) != 0);
    ASSERT_EQ(float_to_f16(value), pattern) << bits;
  }
}

TEST(F16, RoundsToNearestEven) {
  // Between every pair of neighbours: the midpoint goes to the even one, one float step either side to the nearer one.
  for (std::uint32_t bits = 0; bits + 1 < 0x7C00; ++bits) {
    const auto low = static_cast<std::uint16_t>(bits);
    const auto high = static_cast<std::uint16_t>(bits + 1);
    const auto middle = static_cast<float>((f16_value(low) + f16_value(high)) / 2);
    ASSERT_EQ(float_to_f16(middle), (low & 1) == 0 ? low : high) << bits;
    ASSERT_EQ(float_to_f16(std::nextafter(middle, 0.0F)), low) << bits;
    ASSERT_EQ(float_to_f16(std::nextafter(middle, 1e9F)), high) << bits;
    ASSERT_EQ(float_to_f16(-middle), ((low & 1) == 0 ? low : high) | 0x8000) << bits;
  }
  EXPECT_EQ(float_to_f16(65519.996F), 0x7BFF);
  EXPECT_EQ(float_to_f16(65520.0F), 0x7C00);
  EXPECT_EQ(float_to_f16(std::numeric_limits<float>::denorm_min()), 0);
}

TEST(Bf16, RoundTripAndRounding) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    const float value = bf16_to_float(pattern);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(value))));
    } else {
      ASSERT_EQ(float_to_bf16(value), pattern);
    }
  }
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3F808000U)), 0x3F80);  // tie, even below
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3F818000U)), 0x3F82);  // tie, even above
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3F808001U)), 0x3F81);
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::max()), 0x7F80);
}

TEST(E8m0, IsAPowerOfTwo) {
  for (int s = 0; s < 255; ++s) EXPECT_EQ(e8m0_to_float(static_cast<std::uint8_t>(s)), std::ldexp(1.0F, s - 127)) << s;
  EXPECT_TRUE(std::isnan(e8m0_to_float(kE8m0Nan)));
}

TEST(Mxfp4, RenibbleIsExactBothWays) {
  std::mt19937 rng(7);
  for (int round = 0; round < 200; ++round) {
    std::uint8_t hf[16];
    for (auto& b : hf) b = static_cast<std::uint8_t>(rng());
    const auto scale = static_cast<std::uint8_t>(rng() % 255);
    std::uint8_t block[17] = {scale};
    renibble_hf_to_ggml(hf, block + 1);
    float from_hf[32];
    float from_ggml[32];
    decode_mxfp4_hf(hf, scale, from_hf);
    decode_mxfp4(block, from_ggml);
    ASSERT_EQ(std::memcmp(from_hf, from_ggml, sizeof from_hf), 0);
    std::uint8_t back[16];
    renibble_ggml_to_hf(block + 1, back);
    ASSERT_EQ(std::memcmp(back, hf, sizeof hf), 0);
  }
}

TEST(Mxfp4, NibbleOrderIsTheOneOfEachContainer) {
  std::uint8_t hf[16] = {};
  hf[0] = 0x21;  // element 0 = code 1 (0.5), element 1 = code 2 (1.0)
  float out[32];
  decode_mxfp4_hf(hf, 128, out);
  EXPECT_EQ(out[0], 1.0F);
  EXPECT_EQ(out[1], 2.0F);
  std::uint8_t block[17] = {128, 0x21};  // element 0 = code 1, element 16 = code 2
  decode_mxfp4(block, out);
  EXPECT_EQ(out[0], 1.0F);
  EXPECT_EQ(out[16], 2.0F);
}

TEST(Mxfp4, EncodePicksTheNearestValue) {
  std::mt19937 rng(11);
  std::normal_distribution<float> normal;
  for (int round = 0; round < 500; ++round) {
    float values[32];
    const float size = std::ldexp(1.0F, static_cast<int>(rng() % 60) - 30);
    for (float& v : values) v = normal(rng) * size;
    std::uint8_t codes[16];
    const std::uint8_t scale = encode_mxfp4_hf(values, codes);
    ASSERT_NE(scale, kE8m0Nan);
    float out[32];
    decode_mxfp4_hf(codes, scale, out);
    std::uint8_t block[17];
    encode_mxfp4(values, block);
    float out_ggml[32];
    decode_mxfp4(block, out_ggml);
    for (int i = 0; i < 32; ++i) {
      ASSERT_EQ(out[i], out_ggml[i]);
      double best = std::numeric_limits<double>::infinity();
      for (const float code : kE2m1)
        best = std::min(best,
                        std::fabs(static_cast<double>(values[i]) - static_cast<double>(code) * e8m0_to_float(scale)));
      ASSERT_EQ(std::fabs(static_cast<double>(values[i]) - static_cast<double>(out[i])), best);
    }
  }
}

TEST(Mxfp4, EncodeIsExactOnItsOwnValues) {
  for (int s = 1; s < 252; ++s) {
    float values[32];
    for (int i = 0; i < 32; ++i) values[i] = kE2m1[i % 16] * e8m0_to_float(static_cast<std::uint8_t>(s));
    std::uint8_t codes[16];
    EXPECT_EQ(encode_mxfp4_hf(values, codes), s);
    float out[32];
    decode_mxfp4_hf(codes, static_cast<std::uint8_t>(s), out);
    EXPECT_EQ(std::memcmp(values, out, sizeof out), 0) << s;
  }
  const float zeros[32] = {};
  std::uint8_t codes[16];
  EXPECT_EQ(encode_mxfp4_hf(zeros, codes), 127);
  float tiny[32];
  std::fill(tiny, tiny + 32, std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(encode_mxfp4_hf(tiny, codes), 0);
}

TEST(Q8, ErrorIsAtMostHalfAStep) {
  std::mt19937 rng(3);
  std::normal_distribution<float> normal;
  for (int round = 0; round < 200; ++round) {
    float values[32];
    float largest = 0;
    for (float& v : values) largest = std::max(largest, std::fabs(v = normal(rng)));
    std::uint8_t block[34];
    encode_q8_0(values, block);
    float out[32];
    decode_q8_0(block, out);
    // Half a step of the unrounded scale, plus what rounding the scale to f16 moves the largest code.
    const float bound = largest / 127 * 0.5F + largest * 0x1p-11F;
    for (int i = 0; i < 32; ++i) ASSERT_LE(std::fabs(values[i] - out[i]), bound * 1.001F);
  }
}

TEST(Q8, KnownBlock) {
  float values[32] = {};
  values[0] = 127.0F;
  values[1] = -127.0F;
  values[2] = 0.5F;  // half away from zero
  values[31] = -63.4F;
  std::uint8_t block[34];
  encode_q8_0(values, block);
  EXPECT_EQ(block[0] | (block[1] << 8), 0x3C00);  // d = 1
  EXPECT_EQ(block[2], 127);
  EXPECT_EQ(block[3], 0x81);
  EXPECT_EQ(block[4], 1);
  EXPECT_EQ(static_cast<std::int8_t>(block[33]), -63);
}

TEST(Q4, KnownBlock) {
  float values[32] = {};
  values[0] = -8.0F;
  values[16] = 7.0F;
  values[1] = 3.0F;
  std::uint8_t block[18];
  encode_q4_0(values, block);
  EXPECT_EQ(block[0] | (block[1] << 8), 0x3C00);
  EXPECT_EQ(block[2], 0xF0);
  EXPECT_EQ(block[3], 0x8B);
  float out[32];
  decode_q4_0(block, out);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(out[i], values[i]) << i;
}

TEST(Q4Q8, DegenerateBlocksStayDefined) {
  float out[32];
  for (const float fill : {0.0F, std::numeric_limits<float>::denorm_min(), -1e-40F}) {
    float values[32];
    std::fill(values, values + 32, fill);
    std::uint8_t block[34];
    encode_q8_0(values, block);
    decode_q8_0(block, out);
    for (const float v : out) EXPECT_EQ(v, 0.0F);
    encode_q4_0(values, block);
    decode_q4_0(block, out);
    for (const float v : out) EXPECT_EQ(v, 0.0F);
  }
}

TEST(NanScale, IsFoundWhereItStands) {
  std::vector<std::uint8_t> scales(1000, 120);
  EXPECT_FALSE(find_nan_scale(scales));
  scales[777] = 0xFF;
  EXPECT_EQ(find_nan_scale(scales), 777U);
  std::vector<std::uint8_t> blocks(17 * 50, 0xFF);  // codes of 0xFF are fine, scales of 0xFF are not
  for (std::size_t i = 0; i < 50; ++i) blocks[17 * i] = 1;
  EXPECT_FALSE(find_nan_scale_blocks(blocks));
  blocks[17 * 31] = 0xFF;
  EXPECT_EQ(find_nan_scale_blocks(blocks), 31U);
  EXPECT_FALSE(find_nan_scale({}));
}

TEST(DType, NamesAndIdsAreUnique) {
  std::set<std::string_view> names;
  std::set<std::string_view> safetensors;
  std::set<int> ids;
  for (const DTypeInfo& row : dtype_table()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(dtype_from_name(row.name), row.type);
    if (row.ggml_id >= 0) {
      EXPECT_TRUE(ids.insert(row.ggml_id).second) << row.name;
      EXPECT_EQ(dtype_from_ggml(static_cast<std::uint32_t>(row.ggml_id)), row.type);
    }
    if (!row.safetensors_name.empty()) {
      EXPECT_TRUE(safetensors.insert(row.safetensors_name).second);
      EXPECT_EQ(dtype_from_safetensors(row.safetensors_name), row.type);
    }
  }
  for (const std::uint32_t id : {4U, 5U, 31U, 33U, 36U, 38U, 1000U, 0xFFFFFFFFU})
    EXPECT_FALSE(dtype_from_ggml(id)) << id;
  EXPECT_FALSE(dtype_from_safetensors(""));
}

TEST(DType, BytesOfAShape) {
  const auto bytes = [](DType type, std::vector<std::uint64_t> shape) { return tensor_bytes(type, shape); };
  EXPECT_EQ(bytes(DType::f32, {}), 4U);
  EXPECT_EQ(bytes(DType::bf16, {3, 5}), 30U);
  EXPECT_EQ(bytes(DType::mxfp4, {32, 2880, 2880}), 32U * 2880 * 90 * 17);
  EXPECT_EQ(bytes(DType::q8_0, {2, 33}), std::nullopt);
  EXPECT_EQ(bytes(DType::q8_0, {32, 2}), std::nullopt) << "blocks lie along the innermost dimension";
  EXPECT_EQ(bytes(DType::f32, {0, 7}), 0U);
  EXPECT_EQ(bytes(DType::f32, {std::uint64_t{1} << 62, 4}), std::nullopt);
  EXPECT_EQ(bytes(DType::f32, {std::uint64_t{1} << 62, 1}), std::nullopt);
  EXPECT_EQ(bytes(DType::u8, {std::uint64_t{1} << 63, std::uint64_t{1} << 63, 0}), std::nullopt);
}

}  // namespace
}  // namespace plumb::blocks
