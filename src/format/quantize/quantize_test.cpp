// The quantisers: errors within what each format's steps allow, better than rounding to the plain scale, and sane at the edges.
#include "format/quantize/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
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

float largest_of(const std::vector<float>& values) {
  float largest = 0;
  for (const float v : values) largest = std::max(largest, std::fabs(v));
  return largest;
}

// Whole blocks of a matrix whose largest magnitude is `largest`, encoded and read again.
std::vector<float> there_and_back(const Format& f, std::vector<float> values, float largest) {
  const DTypeInfo& info = dtype_info(f.type);
  const float factor = matrix_factor(f, largest);
  std::vector<std::uint8_t> block(info.block_bytes);
  for (float& v : values) v /= factor;
  for (std::size_t i = 0; i + info.block_elements <= values.size(); i += info.block_elements) {
    f.encode(values.data() + i, block.data());
    decode_blocks(f.type, block.data(), info.block_elements, values.data() + i);
  }
  for (float& v : values) v *= factor;
  return values;
}

ErrorSum error_of(const Format& f, const std::vector<float>& values, float largest) {
  ErrorSum sum;
  sum.add(values, there_and_back(f, values, largest));
  return sum;
}
ErrorSum error_of(const Format& f, const std::vector<float>& values) { return error_of(f, values, largest_of(values)); }

TEST(Quantize, ErrorsAreWithinTheStepsOfTheFormat) {
  for (const Format& f : formats()) {
    const std::size_t block = dtype_info(f.type).block_elements;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      std::vector<float> values = bell(seed, block, seed % 3 == 0 ? 0.02F : seed % 3 == 1 ? 1.0F : 300.0F);
      if (seed % 4 == 1) values[seed % block] *= 10;                      // an outlier
      if (seed % 4 == 2) for (float& v : values) v = std::fabs(v);        // one sign
      if (seed % 4 == 3) for (std::size_t i = 0; i < block; i += 2) values[i] = 0;
      const float largest = largest_of(values);
      for (const float beside : {1.0F, 1000.0F}) {  // the largest of the matrix over the block's
        const ErrorSum sum = error_of(f, values, beside * largest);
        const double rms = std::sqrt(sum.error_squares / static_cast<double>(sum.elements));
        EXPECT_LE(rms, f.error_bound * static_cast<double>(largest)) << to_string(f.type) << " seed " << seed << " beside " << beside;
      }
    }
  }
}

// Relative RMS error on bell-shaped weights. The values are what the formats can do; a search that stops searching leaves the band.
TEST(Quantize, ErrorsOnBellShapedWeights) {
  const std::vector<float> values = bell(7, 256 * 400, 0.03F);
  const std::map<DType, std::pair<double, double>> bands = {
      {DType::q8_0, {0.003, 0.0065}},  {DType::q6_k, {0.010, 0.020}}, {DType::q5_k, {0.025, 0.042}}, {DType::q4_k, {0.055, 0.080}},
      {DType::q4_1, {0.055, 0.080}},   {DType::q4_0, {0.060, 0.090}}, {DType::iq4_nl, {0.055, 0.080}}, {DType::mxfp4, {0.08, 0.12}},
      {DType::nvfp4, {0.075, 0.0845}}, {DType::f32, {-1, 1e-12}},       {DType::f16, {1e-5, 3e-4}},    {DType::bf16, {1e-4, 2e-3}}};
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
    const std::vector<float> values = bell(11, dtype_info(f.type).block_elements, 1);
    const std::vector<float> once = there_and_back(f, values, largest_of(values));
    EXPECT_LT(error_of(f, once).relative_rms(), 0.02) << to_string(f.type);
  }
}

TEST(Quantize, EdgesStayFinite) {
  for (const Format& f : formats()) {
    for (const float size : {0.0F, 1e-38F, 1e-30F, 1e-7F, 6e4F, f.limit}) {
      for (const bool both_signs : {false, true}) {
        std::vector<float> values(dtype_info(f.type).block_elements, size);
        for (std::size_t i = 0; both_signs && i < values.size(); i += 3) values[i] = -size;
        for (const float v : there_and_back(f, values, size)) {
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
  EXPECT_DOUBLE_EQ(bits_per_weight(DType::q6_k), 6.5625);
}

TEST(Quantize, AFactorBringsAMatrixToTheFullScale) {
  EXPECT_EQ(matrix_factor(*find_format(DType::q4_0), 3), 1);
  const Format& f = *find_format(DType::nvfp4);
  EXPECT_EQ(matrix_factor(f, 0), 1);
  EXPECT_EQ(matrix_factor(f, 2688), 1);
  EXPECT_EQ(matrix_factor(f, 0.021F), 0.021F / 2688);
  EXPECT_GT(matrix_factor(f, std::numeric_limits<float>::denorm_min()), 0);

  // The scales of usual weights are all normal numbers then, and that of the largest is not far from the last.
  std::vector<float> values = bell(21, 64 * 100, 0.02F);
  const float largest = largest_of(values);
  int last = 0;
  for (std::size_t at = 0; at < values.size(); at += 64) {
    std::uint8_t block[36];
    for (std::size_t i = 0; i < 64; ++i) values[at + i] /= matrix_factor(f, largest);
    f.encode(values.data() + at, block);
    for (int r = 0; r < 4; ++r) {
      EXPECT_GE(block[r], 8);
      EXPECT_LE(block[r], 0x7E);
      last = std::max(last, static_cast<int>(block[r]));
    }
  }
  EXPECT_GE(last, 0x7A);
}

// Against all 126 scales with the nearest of all codes: the ones that are not tried hardly ever win.
TEST(Quantize, Nvfp4TriesTheScalesThatMatter) {
  const Format& f = *find_format(DType::nvfp4);
  double best_of_all = 0, taken = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    std::vector<float> values = bell(100 + seed, 64, seed % 3 == 0 ? 0.003F : 20.0F);
    if (seed % 2 == 1) values[seed] *= 8;
    std::uint8_t block[36];
    std::vector<float> again(64);
    f.encode(values.data(), block);
    decode_blocks(f.type, block, 64, again.data());
    for (std::size_t run = 0; run < 64; run += 16) {
      double best = INFINITY, own = 0, squares = 0;
      for (std::uint8_t scale = 1; scale <= 0x7E; ++scale) {
        double error = 0;
        for (std::size_t i = run; i < run + 16; ++i) {
          double nearest = INFINITY;
          for (const float code : blocks::kE2m1) nearest = std::min(nearest, std::fabs(double{values[i]} - double{code} * blocks::ue4m3_to_float(scale)));
          error += nearest * nearest;
        }
        best = std::min(best, error);
      }
      for (std::size_t i = run; i < run + 16; ++i) {
        own += (again[i] - values[i]) * (again[i] - values[i]);
        squares += values[i] * values[i];
      }
      EXPECT_GE(own, best * (1 - 1e-4) - 1e-12 * squares) << seed;
      best_of_all += best / squares;
      taken += own / squares;
    }
  }
  EXPECT_LT(taken, 1.002 * best_of_all);
}

}  // namespace
}  // namespace plumb::format::quantize
