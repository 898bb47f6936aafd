#include "format/quantize/fit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace plumb::format::quantize {
namespace {

// Spans tried, as parts of the one that reaches the extreme value.
constexpr std::array<float, 9> kSpans = {0.70F, 0.76F, 0.82F, 0.86F, 0.90F, 0.94F, 0.97F, 1.0F, 1.04F};

float signed_extreme(std::span<const float> values) {
  float extreme = 0;
  for (const float v : values) {
    if (std::fabs(v) > std::fabs(extreme)) extreme = v;
  }
  return extreme;
}

}  // namespace

void error_weights(std::span<const float> values, float* weights) {
  float squares = 0;
  for (const float v : values) squares += v * v;
  const float mean = squares / static_cast<float>(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) weights[i] = mean > 1e-30F ? 0.5F * (1.0F + values[i] * values[i] / mean) : 1.0F;
}

int nearest_code(float value, float inverse_scale, int low, int high) {
  const float code = std::nearbyintf(value * inverse_scale);
  return static_cast<int>(std::clamp(code, static_cast<float>(low), static_cast<float>(high)));
}

int nearest_in_table(float x, const std::int8_t* table) {
  int code = 0;
  // The values are sixteen: counting the midpoints below x is quicker than branching through them.
  for (int i = 0; i < 15; ++i) code += x > 0.5F * static_cast<float>(table[i] + table[i + 1]) ? 1 : 0;
  return code;
}

float error_of_scale(std::span<const float> values, const float* weights, float scale, int low, int high) {
  const float inverse = inverse_of(scale);
  float error = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float off = values[i] - scale * static_cast<float>(nearest_code(values[i], inverse, low, high));
    error += weights[i] * off * off;
  }
  return error;
}

float error_of_scale_min(std::span<const float> values, const float* weights, ScaleMin fit, int high) {
  const float inverse = inverse_of(fit.scale);
  float error = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float off = values[i] + fit.min - fit.scale * static_cast<float>(nearest_code(values[i] + fit.min, inverse, 0, high));
    error += weights[i] * off * off;
  }
  return error;
}

float fit_scale(std::span<const float> values, const float* weights, int low, int high) {
  const float extreme = signed_extreme(values);
  float best = 0, best_error = INFINITY;
  const auto consider = [&](float scale) {
    const float error = error_of_scale(values, weights, scale, low, high);
    if (error < best_error) {
      best_error = error;
      best = scale;
    }
  };
  if (extreme == 0) return 0;
  // The extreme may stand at either end of the codes, which are one longer on the negative side.
  for (const int end : {low, high}) {
    for (const float span : kSpans) {
      const float scale = span * extreme / static_cast<float>(end);
      const float inverse = inverse_of(scale);
      float products = 0, squares = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto code = static_cast<float>(nearest_code(values[i], inverse, low, high));
        products += weights[i] * values[i] * code;
        squares += weights[i] * code * code;
      }
      if (squares > 0) consider(products / squares);
    }
    consider(extreme / static_cast<float>(end));
  }
  return best;
}

float fit_table_scale(std::span<const float> values, const float* weights, const std::int8_t* table) {
  const float extreme = signed_extreme(values);
  if (extreme == 0) return 0;
  float best = 0, best_error = INFINITY;
  const auto round_with = [&](float scale, float* refined) {
    const float inverse = inverse_of(scale);
    float error = 0, products = 0, squares = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto code = static_cast<float>(table[nearest_in_table(values[i] * inverse, table)]);
      const float off = values[i] - scale * code;
      error += weights[i] * off * off;
      products += weights[i] * values[i] * code;
      squares += weights[i] * code * code;
    }
    if (refined != nullptr) *refined = squares > 0 ? products / squares : scale;
    if (error < best_error) {
      best_error = error;
      best = scale;
    }
  };
  for (const int end : {0, 15}) {
    for (const float span : kSpans) {
      float refined = 0;
      round_with(span * extreme / static_cast<float>(table[end]), &refined);
      round_with(refined, nullptr);
    }
  }
  return best;
}

ScaleMin fit_scale_min(std::span<const float> values, const float* weights, int high, bool min_above_zero) {
  float low = values[0], top = values[0];
  for (const float v : values) {
    low = std::min(low, v);
    top = std::max(top, v);
  }
  if (min_above_zero) low = std::min(low, 0.0F);
  if (top <= low) return {0, -low};
  ScaleMin best{0, -low};
  float best_error = INFINITY;
  const auto consider = [&](ScaleMin fit) {
    const float error = error_of_scale_min(values, weights, fit, high);
    if (error < best_error) {
      best_error = error;
      best = fit;
    }
  };
  float sum_w = 0, sum_x = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    sum_w += weights[i];
    sum_x += weights[i] * values[i];
  }
  for (const float span : kSpans) {
    // Shrinks the range towards its middle.
    const float middle = 0.5F * (low + top), half = 0.5F * span * (top - low);
    ScaleMin fit{2 * half / static_cast<float>(high), half - middle};
    if (min_above_zero) fit.min = std::max(fit.min, 0.0F);
    const float inverse = inverse_of(fit.scale);
    float sum_q = 0, sum_qq = 0, sum_xq = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto code = static_cast<float>(nearest_code(values[i] + fit.min, inverse, 0, high));
      sum_q += weights[i] * code;
      sum_qq += weights[i] * code * code;
      sum_xq += weights[i] * values[i] * code;
    }
    consider(fit);
    // Least squares of value = scale * code - min.
    const float determinant = sum_w * sum_qq - sum_q * sum_q;
    if (determinant <= 0) continue;
    fit = {(sum_w * sum_xq - sum_x * sum_q) / determinant, (sum_q * sum_xq - sum_qq * sum_x) / determinant};
    if (min_above_zero && fit.min < 0) fit = {sum_qq > 0 ? sum_xq / sum_qq : 0, 0};
    if (fit.scale > 0) consider(fit);
  }
  return best;
}

}  // namespace plumb::format::quantize
