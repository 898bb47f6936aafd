// Encoders of the K formats.
#include <algorithm>
#include <cmath>
#include <span>

#include "base/blocks.h"
#include "base/super_blocks.h"
#include "format/quantize/encoders.h"
#include "format/quantize/fit.h"

namespace plumb::format::quantize {
namespace {

using blocks::kSuper;
using blocks::kSuperParts;

float rounded_to_f16(float value, std::uint16_t& bits) {
  bits = blocks::float_to_f16(value);
  return blocks::f16_to_float(bits);
}
float as_float(int value) { return static_cast<float>(value); }

struct MinParts {
  std::span<const float> values;  // kSuper
  float weights[kSuper];
  int high;  // largest code

  std::span<const float> part(int p) const { return values.subspan(static_cast<std::size_t>(p) * 32, 32); }
  const float* part_weights(int p) const { return weights + 32 * p; }
};

// The pair near (scale / d, min / dmin) of smallest error.
blocks::ScalePair choose_pair(const MinParts& b, int p, ScaleMin wanted, float d, float dmin) {
  const int scale = nearest_code(wanted.scale, inverse_of(d), 0, 63);
  const int min = nearest_code(wanted.min, inverse_of(dmin), 0, 63);
  blocks::ScalePair best;
  float best_error = INFINITY;
  for (int s = std::max(scale - 1, 0); s <= std::min(scale + 1, 63); ++s) {
    for (int m = std::max(min - 1, 0); m <= std::min(min + 1, 63); ++m) {
      const float error = error_of_scale_min(b.part(p), b.part_weights(p), {d * as_float(s), dmin * as_float(m)}, b.high);
      if (error < best_error) {
        best_error = error;
        best = {static_cast<std::uint8_t>(s), static_cast<std::uint8_t>(m)};
      }
    }
  }
  return best;
}

void choose_codes(const MinParts& b, float d, float dmin, blocks::MinBlock& out) {
  for (int p = 0; p < kSuperParts; ++p) {
    const float inverse = inverse_of(d * as_float(out.pairs[p].scale));
    const float min = dmin * as_float(out.pairs[p].min);
    for (int l = 0; l < 32; ++l) {
      out.codes[32 * p + l] = static_cast<std::uint8_t>(nearest_code(b.part(p)[static_cast<std::size_t>(l)] + min, inverse, 0, b.high));
    }
  }
}

float total_error(const MinParts& b, float d, float dmin, const blocks::MinBlock& block) {
  float error = 0;
  for (int p = 0; p < kSuperParts; ++p) {
    error += error_of_scale_min(b.part(p), b.part_weights(p), {d * as_float(block.pairs[p].scale), dmin * as_float(block.pairs[p].min)}, b.high);
  }
  return error;
}

// d and dmin of least squares for the chosen pairs and codes: value = d * (scale * code) - dmin * min.
ScaleMin refit(const MinParts& b, const blocks::MinBlock& block, ScaleMin present) {
  float aa = 0, ab = 0, bb = 0, xa = 0, xb = 0;
  for (int k = 0; k < kSuper; ++k) {
    const blocks::ScalePair pair = block.pairs[k / 32];
    const float w = b.weights[k], x = b.values[static_cast<std::size_t>(k)];
    const float a = as_float(pair.scale * block.codes[k]), m = -as_float(pair.min);
    aa += w * a * a;
    ab += w * a * m;
    bb += w * m * m;
    xa += w * x * a;
    xb += w * x * m;
  }
  const float determinant = aa * bb - ab * ab;
  if (bb == 0 && aa > 0) return {xa / aa, present.min};
  if (!(determinant > 1e-6F * aa * bb)) return present;
  return {(xa * bb - xb * ab) / determinant, (xb * aa - xa * ab) / determinant};
}

blocks::MinBlock encode_min_block(const float* values, int high) {
  MinParts b{.values = {values, static_cast<std::size_t>(kSuper)}, .weights = {}, .high = high};
  ScaleMin fits[kSuperParts];
  float largest_scale = 0, largest_min = 0;
  for (int p = 0; p < kSuperParts; ++p) {
    error_weights(b.part(p), b.weights + 32 * p);
    fits[p] = fit_scale_min(b.part(p), b.part_weights(p), high, true);
    largest_scale = std::max(largest_scale, fits[p].scale);
    largest_min = std::max(largest_min, fits[p].min);
  }
  blocks::MinBlock out;
  float d = rounded_to_f16(largest_scale / 63, out.d);
  float dmin = rounded_to_f16(largest_min / 63, out.dmin);
  for (int p = 0; p < kSuperParts; ++p) out.pairs[p] = choose_pair(b, p, fits[p], d, dmin);
  choose_codes(b, d, dmin, out);
  const ScaleMin again = refit(b, out, {d, dmin});
  blocks::MinBlock better = out;
  const float new_d = rounded_to_f16(again.scale, better.d);
  const float new_dmin = rounded_to_f16(again.min, better.dmin);
  if (total_error(b, new_d, new_dmin, out) < total_error(b, d, dmin, out)) {
    out = better;
    choose_codes(b, new_d, new_dmin, out);
  }
  return out;
}

}  // namespace

void encode_q4_k(const float* values, std::uint8_t* block) { blocks::write_q4_k(encode_min_block(values, 15), block); }
void encode_q5_k(const float* values, std::uint8_t* block) { blocks::write_q5_k(encode_min_block(values, 31), block); }

void encode_q6_k(const float* values, std::uint8_t* block) {
  constexpr int kRuns = 16, kRun = 16, kLow = -32, kHigh = 31;
  const std::span<const float> all(values, kSuper);
  const auto run = [&](int r) { return all.subspan(static_cast<std::size_t>(r * kRun), kRun); };
  float weights[kSuper];
  float scales[kRuns];
  float largest = 0;
  for (int r = 0; r < kRuns; ++r) {
    error_weights(run(r), weights + kRun * r);
    scales[r] = fit_scale(run(r), weights + kRun * r, kLow, kHigh);
    largest = std::max(largest, std::fabs(scales[r]));
  }
  blocks::SixBitBlock out;
  float d = rounded_to_f16(largest / 127, out.d);
  const auto choose = [&] {
    for (int r = 0; r < kRuns; ++r) {
      const int near = nearest_code(scales[r], inverse_of(d), -127, 127);
      float best_error = INFINITY;
      for (int s = std::max(near - 1, -127); s <= std::min(near + 1, 127); ++s) {
        const float error = error_of_scale(run(r), weights + kRun * r, d * as_float(s), kLow, kHigh);
        if (error < best_error) {
          best_error = error;
          out.scales[r] = static_cast<std::int8_t>(s);
        }
      }
      const float inverse = inverse_of(d * as_float(out.scales[r]));
      for (int i = 0; i < kRun; ++i) {
        out.codes[kRun * r + i] = static_cast<std::uint8_t>(nearest_code(run(r)[static_cast<std::size_t>(i)], inverse, kLow, kHigh) + 32);
      }
    }
  };
  choose();
  // d of least squares for what was chosen, and the choice once more.
  float products = 0, squares = 0;
  for (int k = 0; k < kSuper; ++k) {
    const float a = as_float(out.scales[k / kRun] * (out.codes[k] - 32));
    products += weights[k] * values[k] * a;
    squares += weights[k] * a * a;
  }
  if (squares > 0) {
    d = rounded_to_f16(products / squares, out.d);
    choose();
  }
  blocks::write_q6_k(out, block);
}

}  // namespace plumb::format::quantize
