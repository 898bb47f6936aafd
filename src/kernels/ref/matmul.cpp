#include <vector>

#include "kernels/ref/reference.h"
#include "kernels/ref/weight_row.h"

namespace plumb::kernels {

void reference(const MatmulArgs& a) {
  std::vector<std::vector<double>> in;
  for (std::int64_t r = 0; r < a.rows; ++r) in.push_back(activation_row(a.in, a.in_q8, r, a.weight.cols));
  for (std::int64_t n = 0; n < a.weight.rows; ++n) {
    const std::vector<double> weight = weight_row(a.weight, 0, n);
    for (std::int64_t r = 0; r < a.rows; ++r) {
      double sum = 0;
      for (std::int64_t k = 0; k < a.weight.cols; ++k) sum += in[static_cast<std::size_t>(r)][static_cast<std::size_t>(k)] * weight[static_cast<std::size_t>(k)];
      if (a.bias) sum += a.bias[n];
      float& out = a.out[r * a.weight.rows + n];
      out = static_cast<float>(a.accumulate != 0 ? out + sum : sum);
    }
  }
}

}  // namespace plumb::kernels
