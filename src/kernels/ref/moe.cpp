#include "kernels/ref/reference.h"
#include "kernels/ref/weight_row.h"

namespace plumb::kernels {

void reference(const MoeGroupArgs& a) {
  const std::int64_t pairs = std::int64_t{a.rows} * a.top_k;
  const auto expert_of = [&](std::int64_t pair) {
    const std::int32_t e = a.experts[pair];
    return e >= 0 && e < a.expert_count ? e : 0;
  };
  std::int32_t placed = 0;
  for (std::int32_t e = 0; e < a.expert_count; ++e) {
    a.offsets[e] = placed;
    for (std::int64_t pair = 0; pair < pairs; ++pair) {
      if (expert_of(pair) == e) a.order[placed++] = static_cast<std::int32_t>(pair);
    }
  }
  a.offsets[a.expert_count] = placed;
}

void reference(const MoeGluArgs& a) {
  const auto hidden = static_cast<std::size_t>(a.gate.cols);
  std::vector<std::vector<double>> in;
  for (std::int64_t r = 0; r < a.rows; ++r) in.push_back(activation_row(a.in, a.in_q8, r, a.gate.cols));
  for (std::int64_t e = 0; e < a.gate.experts; ++e) {
    if (a.offsets[e] == a.offsets[e + 1]) continue;
    for (std::int64_t i = 0; i < a.gate.rows; ++i) {
      const std::vector<double> gate_row = weight_row(a.gate, e, i);
      const std::vector<double> up_row = weight_row(a.up, e, i);
      for (std::int64_t at = a.offsets[e]; at < a.offsets[e + 1]; ++at) {
        const std::int64_t pair = a.order[at];
        const std::vector<double>& x = in[static_cast<std::size_t>(pair / a.top_k)];
        double gate = 0;
        double up = 0;
        for (std::size_t k = 0; k < hidden; ++k) {
          gate += x[k] * gate_row[k];
          up += x[k] * up_row[k];
        }
        const std::int64_t bias = e * a.bias_expert_stride + i * a.bias_stride;
        if (a.gate_bias) gate += a.gate_bias[bias];
        if (a.up_bias) up += a.up_bias[bias];
        a.out[pair * a.gate.rows + i] = static_cast<float>(reference_activate(a.spec, gate, up));
      }
    }
  }
}

void reference(const MoeDownArgs& a) {
  const auto ffn = static_cast<std::size_t>(a.down.cols);
  std::vector<std::vector<double>> in;
  for (std::int64_t p = 0; p < std::int64_t{a.rows} * a.top_k; ++p) in.push_back(activation_row(a.in, a.in_q8, p, a.down.cols));
  for (std::int64_t e = 0; e < a.down.experts; ++e) {
    if (a.offsets[e] == a.offsets[e + 1]) continue;
    for (std::int64_t n = 0; n < a.down.rows; ++n) {
      const std::vector<double> row = weight_row(a.down, e, n);
      for (std::int64_t at = a.offsets[e]; at < a.offsets[e + 1]; ++at) {
        const std::int64_t pair = a.order[at];
        double sum = 0;
        for (std::size_t k = 0; k < ffn; ++k) sum += in[static_cast<std::size_t>(pair)][k] * row[k];
        if (a.bias) sum += a.bias[e * a.down.rows + n];
        a.out[pair * a.down.rows + n] = static_cast<float>(sum);
      }
    }
  }
}

void reference(const MoeCombineArgs& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    for (std::int64_t i = 0; i < a.cols; ++i) {
      double sum = 0;
      for (std::int64_t c = 0; c < a.top_k; ++c) {
        sum += double{a.weights[r * a.top_k + c]} * a.in[(r * a.top_k + c) * a.cols + i];
      }
      a.x[r * a.cols + i] = static_cast<float>(a.x[r * a.cols + i] + sum);
    }
  }
}

}  // namespace plumb::kernels
