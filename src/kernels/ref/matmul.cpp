#include "kernels/ref/reference.h"
#include "kernels/ref/weight_row.h"

namespace plumb::kernels {

void reference(const MatmulArgs& a) {
  for (std::int64_t n = 0; n < a.weight.rows; ++n) {
    const std::vector<double> weight = weight_row(a.weight, 0, n);
    for (std::int64_t r = 0; r < a.rows; ++r) {
      double sum = 0;
      for (std::int64_t k = 0; k < a.weight.cols; ++k) sum += double{a.in[r * a.weight.cols + k]} * weight[k];
      if (a.bias) sum += a.bias[n];
      float& out = a.out[r * a.weight.rows + n];
      out = static_cast<float>(a.accumulate != 0 ? out + sum : sum);
    }
  }
}

}  // namespace plumb::kernels
