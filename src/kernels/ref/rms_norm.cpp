#include <cmath>

#include "kernels/ref/reference.h"

namespace plumb::kernels {

void reference(const RmsNormArgs& a) {
  for (std::int64_t g = 0; g < std::int64_t{a.rows} * a.groups; ++g) {
    const float* in = a.in.get() + g * a.cols;
    float* out = a.out.get() + g * a.cols;
    double squares = 0;
    for (std::int64_t i = 0; i < a.cols; ++i) squares += double{in[i]} * in[i];
    const double factor = 1 / std::sqrt(squares / a.cols + a.eps);
    for (std::int64_t i = 0; i < a.cols; ++i) out[i] = static_cast<float>(in[i] * factor * a.weight[i]);
  }
}

}  // namespace plumb::kernels
