// The quantisers: errors within what each format's steps allow, better than rounding to the plain scale, and sane at the edges.
#include "format/quantize/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "base/blocks.h"
#include "base/counter_rng.h"
#include "format/quantize/encoders.h"

namespace plumb::format::quantize {
namespace {

// Bell-shaped, deviation `size`, as trained weights are; element i of stream `seed`.
std::vector<float> bell(std::uint64_t seed, std::size_t count, float size) {
  const Philox random{seed};
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    float sum = -2;
    for (const std::uint32_t word : random.block(i)) sum += static_cast<float>(word >> 8) * 0x1p-24F;
    out[i] = sum * 1.73F * size;
  }
  return out;
}

ErrorSum error_of(const Format& f, const std::vector<float>& values) {
  const DTypeInfo& info = dtype_info(f.type);
  std::vector<std::uint8_t> block(info.block_bytes);
  std::vector<float> again(info.block_elements);
  ErrorSum sum;
  for (std::size_t i = 0; i + info.block_elements <= values.size(); i += info.block_elements) {
    f.encode(values.data() + i, block.data());
    decode_blocks(f.type, block.data(), info.block_elements, again.data());
    sum.add(std::span(values).subspan(i, info.block_elements), again);
  }
  return sum;
}

TEST(Quantize, ErrorsAreWithinTheStepsOfTheFormat) {
  for (const Format& f : formats()) {
    const std::size_t block = dtype_info(f.type).block_elements;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      std::vector<float> values = bell(seed, block, seed % 3 == 0 ? 0.02F : seed % 3 == 1 ? 1.0F : 300.0F);
      if (seed % 4 == 1) values[seed % block] *= 10;                      // an outlier
      if (seed % 4 == 2) for (float& v : values) v = std::fabs(v);        // one sign
      if (seed % 4 == 3) for (std::size_t i = 0; i < block; i += 2) values[i] = 0;
      float largest = 0;
      for (const float v : values) largest = std::max(largest, std::fabs(v));
      const ErrorSum sum = error_of(f, values);
      const double rms = std::sqrt(sum.error_squares / static_cast<double>(sum.elements));
      EXPECT_LE(rms, f.error_bound * static_cast<double>(largest)) << to_string(f.type) << " seed " << seed;
    }
  }
}

// Relative RMS error on bell-shaped weights. The values are what the formats can do; a search that stops searching leaves the band.
TEST(Quantize, ErrorsOnBellShapedWeights) {
  const std::vector<float> values = bell(7, 256 * 400, 0.03F);
  const std::map<DType, std::pair<double, double>> bands = {
      {DType::q8_0, {0.003, 0.0065}},  {DType::q6_k, {0.010, 0.020}}, {DType::q5_k, {0.025, 0.042}}, {DType::q4_k, {0.055, 0.080}},
      {DType::q4_1, {0.055, 0.080}},   {DType::q4_0, {0.060, 0.090}}, {DType::iq4_nl, {0.055, 0.080}}, {DType::mxfp4, {0.08, 0.12}},
      {DType::f32, {-1, 1e-12}},       {DType::f16, {1e-5, 3e-4}},    {DType::bf16, {1e-4, 2e-3}}};
  for (const Format& f : formats()) {
    const double error = error_of(f, values).relative_rms();
    RecordProperty(std::string(to_string(f.type)), std::to_string(error));
    EXPECT_GT(error, bands.at(f.type).first) << to_string(f.type);
    EXPECT_LT(error, bands.at(f.type).second) << to_string(f.type);
  }
}

TEST(Quantize, SearchingBeatsThePlainScale) {
  const std::vector<float> values = bell(8, 32 * 1000, 0.03F);
  const Format plain_q4_0{DType::q4_0, blocks::encode_q4_0, 0, 0, DType::q4_0};
  const Format plain_mxfp4{DType::mxfp4, blocks::encode_mxfp4, 0, 0, DType::mxfp4};
  EXPECT_LT(error_of(*find_format(DType::q4_0), values).relative_rms(), 0.97 * error_of(plain_q4_0, values).relative_rms());
  EXPECT_LT(error_of(*find_format(DType::mxfp4), values).relative_rms(), 0.97 * error_of(plain_mxfp4, values).relative_rms());
}

// What a format can say exactly comes back unchanged.
TEST(Quantize, RequantisingItsOwnValuesChangesLittle) {
  for (const Format& f : formats()) {
    const DTypeInfo& info = dtype_info(f.type);
    const std::vector<float> values = bell(11, info.block_elements, 1);
    std::vector<std::uint8_t> block(info.block_bytes);
    std::vector<float> once(info.block_elements), twice(info.block_elements);
    f.encode(values.data(), block.data());
    decode_blocks(f.type, block.data(), once.size(), once.data());
    f.encode(once.data(), block.data());
    decode_blocks(f.type, block.data(), twice.size(), twice.data());
    ErrorSum sum;
    sum.add(once, twice);
    EXPECT_LT(sum.relative_rms(), 0.02) << to_string(f.type);
  }
}

TEST(Quantize, EdgesStayFinite) {
  for (const Format& f : formats()) {
    const DTypeInfo& info = dtype_info(f.type);
    std::vector<std::uint8_t> block(info.block_bytes);
    std::vector<float> again(info.block_elements);
    for (const float size : {0.0F, 1e-38F, 1e-30F, 1e-7F, 6e4F, f.limit}) {
      for (const bool both_signs : {false, true}) {
        std::vector<float> values(info.block_elements, size);
        for (std::size_t i = 0; both_signs && i < values.size(); i += 3) values[i] = -size;
        f.encode(values.data(), block.data());
        decode_blocks(f.type, block.data(), again.size(), again.data());
        for (const float v : again) {
          ASSERT_TRUE(std::isfinite(v)) << to_string(f.type) << " " << size;
          if (size == 0) {
            ASSERT_EQ(v, 0) << to_string(f.type);
          }
        }
      }
    }
  }
}

TEST(Quantize, TheTableKnowsItsShortRows) {
  for (const Format& f : formats()) {
    const Format* instead = find_format(f.short_rows);
    ASSERT_NE(instead, nullptr);
    EXPECT_LE(dtype_info(instead->type).block_elements, 32U);
    EXPECT_GE(bits_per_weight(instead->type), bits_per_weight(f.type)) << to_string(f.type);
  }
  EXPECT_EQ(find_format(DType::nvfp4), nullptr);
  EXPECT_DOUBLE_EQ(bits_per_weight(DType::q6_k), 6.5625);
}

}  // namespace
}  // namespace plumb::format::quantize
