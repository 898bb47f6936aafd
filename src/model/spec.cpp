#include "model/spec.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"
#include "kernels/api/gated_delta.h"

namespace plumb::model {

bool RopeSpec::operator==(const RopeSpec& o) const {
  const auto same_yarn = [](const YarnSpec& a, const YarnSpec& b) {
    return a.factor == b.factor && a.original_positions == b.original_positions && a.beta_fast == b.beta_fast &&
           a.beta_slow == b.beta_slow && a.truncate == b.truncate;
  };
  return theta == o.theta && rotary_dims == o.rotary_dims && pairing == o.pairing && linear_factor == o.linear_factor &&
         yarn.has_value() == o.yarn.has_value() && (!yarn || same_yarn(*yarn, *o.yarn));
}

namespace {

// The (fractional) pair index whose wavelength makes `rotations` turns within the original context.
double correction_dim(const RopeSpec& rope, double rotations) {
  const double d = rope.rotary_dims;
  const double context = rope.yarn->original_positions;
  return d * std::log(context / (rotations * 2 * std::numbers::pi)) / (2 * std::log(rope.theta));
}

}  // namespace

std::vector<float> rope_frequencies(const RopeSpec& rope) {
  const int pairs = rope.rotary_dims / 2;
  std::vector<float> frequencies(static_cast<std::size_t>(pairs));
  double low = 0;
  double high = 0;
  if (rope.yarn) {
    low = correction_dim(rope, rope.yarn->beta_fast);
    high = correction_dim(rope, rope.yarn->beta_slow);
    if (rope.yarn->truncate) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, rope.rotary_dims - 1.0);
    if (low == high) high += 0.001;  // the paper's guard against a ramp of no width
  }
  for (int i = 0; i < pairs; ++i) {
    const double extrapolated = std::pow(rope.theta, -2.0 * i / rope.rotary_dims);
    double f = extrapolated / rope.linear_factor;
    if (rope.yarn) {
      const double ramp = std::clamp((i - low) / (high - low), 0.0, 1.0);  // 0: keep the trained frequency, 1: interpolate
      f = extrapolated * (1 - ramp) + extrapolated / rope.yarn->factor * ramp;
    }
    frequencies[static_cast<std::size_t>(i)] = static_cast<float>(f);
  }
  return frequencies;
}

float rope_concentration(const RopeSpec& rope) {
  if (!rope.yarn || rope.yarn->factor <= 1) return 1;
  return static_cast<float>(0.1 * std::log(static_cast<double>(rope.yarn->factor)) + 1);
}

std::vector<std::int32_t> layer_classes(const DecoderSpec& spec) {
  std::vector<std::int32_t> classes;
  for (const LayerSpec& layer : spec.layers) {
    const auto* attention = std::get_if<AttentionSpec>(&layer.mixer);
    if (attention == nullptr) continue;
    if (std::find(classes.begin(), classes.end(), attention->window) == classes.end()) classes.push_back(attention->window);
  }
  return classes;
}

std::size_t class_of(const std::vector<std::int32_t>& classes, std::int32_t window) {
  const auto found = std::find(classes.begin(), classes.end(), window);
  PLUMB_CHECK(found != classes.end());
  return static_cast<std::size_t>(found - classes.begin());
}

bool has_recurrent(const DecoderSpec& spec) {
  return std::any_of(spec.layers.begin(), spec.layers.end(),
                     [](const LayerSpec& layer) { return std::holds_alternative<RecurrentSpec>(layer.mixer); });
}

std::uint64_t recurrent_state_bytes(const DecoderSpec& spec) {
  std::uint64_t bytes = 0;
  for (const LayerSpec& layer : spec.layers) {
    if (const auto* r = std::get_if<RecurrentSpec>(&layer.mixer)) {
      bytes += kernels::state_slot_bytes(r->heads, r->key_dim, r->value_dim);
    }
  }
  return bytes;
}

const char* mixer_class(const MixerSpec& mixer) {
  if (const auto* attention = std::get_if<AttentionSpec>(&mixer)) {
    return attention->window > 0 ? "attention_sliding" : "attention_full";
  }
  return "recurrent";
}

}  // namespace plumb::model
