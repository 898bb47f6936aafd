#include "measure/parity.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace plumb::measure {
namespace {

// log(sum(exp(values))), shifted by the largest value so that nothing overflows.
double log_sum_exp(std::span<const float> values) {
  const double top = *std::max_element(values.begin(), values.end());
  double sum = 0;
  for (const float v : values) sum += std::exp(static_cast<double>(v) - top);
  return top + std::log(sum);
}

}  // namespace

std::size_t argmax(std::span<const float> values) {
  PLUMB_CHECK(!values.empty());
  return static_cast<std::size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

double top_margin(std::span<const float> values) {
  PLUMB_CHECK(values.size() >= 2);
  const std::size_t top = argmax(values);
  float next = -std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i != top) next = std::max(next, values[i]);
  }
  return static_cast<double>(values[top]) - static_cast<double>(next);
}

double negative_log_likelihood(std::span<const float> logits, std::size_t target) {
  PLUMB_CHECK(target < logits.size());
  return log_sum_exp(logits) - static_cast<double>(logits[target]);
}

LogitComparison compare_logits(std::span<const float> reference, std::span<const float> ours) {
  PLUMB_CHECK(reference.size() == ours.size() && reference.size() >= 2);
  LogitComparison out;
  out.top1_reference = argmax(reference);
  out.reference_margin = top_margin(reference);
  double dot = 0, square_reference = 0, square_ours = 0, largest = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const double r = reference[i], o = ours[i];
    if (!std::isfinite(o)) {  // no distance can be computed from here; it is infinitely wrong, and this is where
      out.cosine = 0;
      out.max_abs = out.max_rel = out.kl = std::numeric_limits<double>::infinity();
      out.max_abs_at = out.top1_ours = i;
      return out;
    }
    dot += r * o;
    square_reference += r * r;
    square_ours += o * o;
    largest = std::max(largest, std::abs(r));
    if (std::abs(o - r) > out.max_abs) {
      out.max_abs = std::abs(o - r);
      out.max_abs_at = i;
    }
  }
  out.top1_ours = argmax(ours);
  const double norms = std::sqrt(square_reference) * std::sqrt(square_ours);
  out.cosine = norms > 0 ? dot / norms : 0;
  out.max_rel = largest > 0 ? out.max_abs / largest : out.max_abs;
  const double log_reference = log_sum_exp(reference), log_ours = log_sum_exp(ours);
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const double p = reference[i] - log_reference;
    out.kl += std::exp(p) * (p - (ours[i] - log_ours));
  }
  out.kl = std::max(out.kl, 0.0);  // rounding can leave -1e-17 where both are equal
  return out;
}

}  // namespace plumb::measure
