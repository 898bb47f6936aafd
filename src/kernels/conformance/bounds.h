// Error bounds that several ops share.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/conformance/shape_case.h"

namespace plumb::kernels::conformance {

// Of act(gate, up) when gate and up are off by at most `gate_error` and `up_error`.
// The derivative of g * sigmoid(alpha g) is at most 1.1 whatever alpha is. Rounding: exp is within 4 u and its argument within
// u * |alpha g|, the sigmoid inherits both; division, products, the addition of 1 and the two results' roundings add 8 more.
// 1e-36 covers exp's flush to 0 and overflow, where the true value is below that.
inline double glu_bound(const GluSpec& spec, double gate, double up, double gate_error, double up_error) {
  double g = gate;
  double alpha = 1;
  double u = std::fabs(up);
  if (spec.kind == GluKind::clamped_silu) {
    g = std::min(gate, double{spec.limit});
    alpha = spec.alpha;
    u = std::min(u, double{spec.limit}) + 1;
  }
  const double swish = std::fabs(g / (1 + std::exp(-alpha * g)));
  return 1.1 * gate_error * (u + up_error) + swish * up_error + (12 + std::fabs(alpha * g)) * kU * swish * (u + up_error) + 1e-36;
}

}  // namespace plumb::kernels::conformance
