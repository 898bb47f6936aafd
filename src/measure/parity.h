// Comparing two sets of next-token logits at one position: the numbers a parity report is made of.
//
// They say how far two computations of the same thing are apart, which is numerical equivalence and not quality.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace plumb::measure {

struct LogitComparison {
  double cosine = 0;          // 0 when either side is all zeros
  double max_abs = 0;         // largest |ours - reference|; infinity when a value of ours is not finite
  std::size_t max_abs_at = 0; // the token there
  double max_rel = 0;         // max_abs / largest |reference| of the position
  double kl = 0;              // KL(reference || ours) of the softmaxes, nats; infinity as for max_abs
  std::size_t top1_reference = 0;
  std::size_t top1_ours = 0;  // ties to the lowest token, on both sides
  double reference_margin = 0; // largest minus second largest reference logit
};

// In double precision. REQUIRES: both of the same size, at least 2.
LogitComparison compare_logits(std::span<const float> reference, std::span<const float> ours);

// Index of the largest value, the lowest one among equals. REQUIRES: not empty.
std::size_t argmax(std::span<const float> values);

// Largest minus second largest. REQUIRES: at least 2 values.
double top_margin(std::span<const float> values);

// -log softmax(logits)[target], nats. REQUIRES: target < logits.size().
double negative_log_likelihood(std::span<const float> logits, std::size_t target);

}  // namespace plumb::measure
