#include <cmath>
#include <cstring>

#include "kernels/ref/reference.h"

namespace plumb::kernels {
namespace {

void quantize_block(const float* x, std::int8_t* codes, float* scale, std::int16_t* sums) {
  float largest = 0;
  bool finite = true;
  for (int k = 0; k < kQ8Block; ++k) {
    finite = finite && std::isfinite(x[k]);
    largest = std::fmax(largest, std::fabs(x[k]));
  }
  std::memset(codes, 0, kQ8Block);
  sums[0] = sums[1] = 0;
  *scale = finite ? 0.0F : std::nanf("");
  if (!finite || largest < kQ8Smallest) return;
  *scale = largest / static_cast<float>(kQ8MaxCode);
  const float inverse = static_cast<float>(kQ8MaxCode) / largest;
  for (int k = 0; k < kQ8Block; ++k) {
    codes[k] = static_cast<std::int8_t>(std::nearbyint(x[k] * inverse));
    sums[k % 4 / 2] = static_cast<std::int16_t>(sums[k % 4 / 2] - codes[k]);
  }
}

}  // namespace

void reference(const QuantizeArgs& a) {
  for (std::int64_t v = 0; v < std::int64_t{a.rows} * a.groups; ++v) {
    const Q8Row row(a.out.get() + v * static_cast<std::int64_t>(q8_row_bytes(a.cols)), a.cols);
    for (std::int64_t b = 0; b < a.cols / kQ8Block; ++b) {
      quantize_block(a.in.get() + v * a.cols + b * kQ8Block, const_cast<std::int8_t*>(row.codes) + b * kQ8Block,
                     const_cast<float*>(row.scales) + b, const_cast<std::int16_t*>(row.sums) + b * 2);
    }
  }
}

}  // namespace plumb::kernels
