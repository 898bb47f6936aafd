#include <cmath>

#include "kernels/ref/reference.h"

namespace plumb::kernels {
namespace {

void quantize_block(const float* x, Q8Block& out) {
  float largest = 0;
  bool finite = true;
  for (int k = 0; k < kQ8Block; ++k) {
    finite = finite && std::isfinite(x[k]);
    largest = std::fmax(largest, std::fabs(x[k]));
  }
  out = {};
  out.scale = finite ? 0.0F : std::nanf("");
  if (!finite || largest < kQ8Smallest) return;
  out.scale = largest / static_cast<float>(kQ8MaxCode);
  const float inverse = static_cast<float>(kQ8MaxCode) / largest;
  for (int k = 0; k < kQ8Block; ++k) {
    out.codes[k] = static_cast<std::int8_t>(std::nearbyint(x[k] * inverse));
    out.sums[k % 4 / 2] = static_cast<std::int16_t>(out.sums[k % 4 / 2] - out.codes[k]);
  }
}

}  // namespace

void reference(const QuantizeArgs& a) {
  auto* blocks = reinterpret_cast<Q8Block*>(a.out.get());
  for (std::int64_t b = 0; b < std::int64_t{a.rows} * a.groups * (a.cols / kQ8Block); ++b) {
    quantize_block(a.in.get() + b * kQ8Block, blocks[b]);
  }
}

}  // namespace plumb::kernels
