#include <cmath>

#include "kernels/ref/reference.h"

namespace plumb::kernels {

void reference(const RopeTableArgs& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    for (std::int64_t i = 0; i < a.pairs; ++i) {
      const float angle = static_cast<float>(a.positions[r]) * a.frequencies[i];  // float32 on purpose: the op's meaning
      float* pair = a.out.get() + (r * a.pairs + i) * 2;
      pair[0] = static_cast<float>(std::cos(double{angle}) * a.concentration);
      pair[1] = static_cast<float>(std::sin(double{angle}) * a.concentration);
    }
  }
}

void reference(const RopeArgs& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    for (std::int64_t h = 0; h < a.heads; ++h) {
      float* x = a.x.get() + (r * a.heads + h) * a.head_dim;
      for (std::int64_t i = 0; i < a.pairs; ++i) {
        const bool halves = a.pairing == RopePairing::halves;
        float& first = x[halves ? i : 2 * i];
        float& second = x[halves ? i + a.pairs : 2 * i + 1];
        const double cosine = a.table[(r * a.pairs + i) * 2];
        const double sine = a.table[(r * a.pairs + i) * 2 + 1];
        const double p = first;
        const double q = second;
        first = static_cast<float>(p * cosine - q * sine);
        second = static_cast<float>(q * cosine + p * sine);
      }
    }
  }
}

}  // namespace plumb::kernels
