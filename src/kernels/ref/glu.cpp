#include <algorithm>
#include <cmath>

#include "kernels/ref/reference.h"

namespace plumb::kernels {

double reference_activate(const GluSpec& spec, double gate, double up) {
  switch (spec.kind) {
    case GluKind::silu: return gate / (1 + std::exp(-gate)) * up;
    case GluKind::clamped_silu: {
      const double limit = spec.limit;
      const double g = std::min(gate, limit);
      const double u = std::clamp(up, -limit, limit);
      return g / (1 + std::exp(-double{spec.alpha} * g)) * (u + 1);
    }
  }
  return 0;
}

void reference(const GluArgs& a) {
  for (std::int64_t i = 0; i < std::int64_t{a.rows} * a.cols; ++i) {
    a.out[i] = static_cast<float>(reference_activate(a.spec, a.gate[i], a.up[i]));
  }
}

}  // namespace plumb::kernels
