// Scales for a short run of values: the searches that the encoders share.
//
// Each tries a few scales around the one that just spans the values, rounds, fits the scale to the rounded codes by weighted least
// squares (the scale of smallest error for given codes has a closed form), rounds again with it, and keeps the best. Clipping the
// largest value a little often costs less than spreading all codes for it, which is why scales below the spanning one are tried.
//
// All arithmetic is float and in a fixed order: the same values give the same codes on every run and thread count.
// Thread rule: pure functions.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <span>

namespace plumb::format::quantize {

inline constexpr std::size_t kMaxRun = 64;

// What an error at each element counts: the mean square of the run plus the element's own square, so that an error on a large
// weight, which meets the same activations, counts more than one on a weight that hardly contributes. `weights` gets values.size()
// numbers, of mean 1 (all 1 for a run of zeros).
void error_weights(std::span<const float> values, float* weights);

// value ~ scale * code, code in [low, high]. Returns the scale (its sign is free); 0 for a run of zeros.
float fit_scale(std::span<const float> values, const float* weights, int low, int high);

// value ~ scale * table[code] with 16 ascending values. Returns the scale; its sign is free.
float fit_table_scale(std::span<const float> values, const float* weights, const std::int8_t* table);

// value ~ scale * code - min, code in [0, high], scale >= 0. With `min_above_zero`, min >= 0 as the K formats have it.
struct ScaleMin {
  float scale = 0, min = 0;
};
ScaleMin fit_scale_min(std::span<const float> values, const float* weights, int high, bool min_above_zero);

// 1 / scale; 0 for a scale too small to divide by.
inline float inverse_of(float scale) { return std::fabs(scale) > 1e-30F ? 1.0F / scale : 0.0F; }

// Codes for a given scale. A scale of 0 gives the code of value 0 (or the lowest).
int nearest_code(float value, float inverse_scale, int low, int high);
int nearest_in_table(float value_over_scale, const std::int8_t* table);

// sum of weights * (values - scale * code)^2, codes chosen for the scale.
float error_of_scale(std::span<const float> values, const float* weights, float scale, int low, int high);
float error_of_scale_min(std::span<const float> values, const float* weights, ScaleMin fit, int high);

}  // namespace plumb::format::quantize
