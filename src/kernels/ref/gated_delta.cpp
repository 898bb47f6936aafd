#include <cmath>
#include <vector>

#include "kernels/ref/reference.h"

namespace plumb::kernels {
namespace {

std::vector<double> unit(const float* x, std::int32_t n) {
  double squares = 0;
  for (std::int32_t i = 0; i < n; ++i) squares += double{x[i]} * x[i];
  std::vector<double> out;
  for (std::int32_t i = 0; i < n; ++i) out.push_back(x[i] / std::sqrt(squares + kKeyNormEps));
  return out;
}

double softplus(double x) { return (x > 0 ? x : 0) + std::log1p(std::exp(-std::fabs(x))); }

// One head of one row. `state`: [key_dim][value_dim].
void step(const GatedDeltaArgs& a, std::int64_t r, std::int32_t h, float* state) {
  const std::int64_t at = r * a.heads + h;
  const std::vector<double> q = unit(a.q.get() + at * a.key_dim, a.key_dim);
  const std::vector<double> k = unit(a.k.get() + at * a.key_dim, a.key_dim);
  const double alpha = std::exp(-(a.rates ? a.rates[h] : 1.0) * softplus(a.decay[at]));
  const double beta = 1 / (1 + std::exp(-double{a.beta[at]}));
  for (std::int64_t j = 0; j < a.value_dim; ++j) {
    double answer = 0;
    for (std::int64_t i = 0; i < a.key_dim; ++i) answer += alpha * state[i * a.value_dim + j] * k[static_cast<std::size_t>(i)];
    const double move = beta * (a.v[at * a.value_dim + j] - answer);
    double out = 0;
    for (std::int64_t i = 0; i < a.key_dim; ++i) {
      const double cell = alpha * state[i * a.value_dim + j] + k[static_cast<std::size_t>(i)] * move;
      out += cell * q[static_cast<std::size_t>(i)];
      state[i * a.value_dim + j] = static_cast<float>(cell);
    }
    a.out[at * a.value_dim + j] = static_cast<float>(out);
  }
}

}  // namespace

void reference(const GatedDeltaArgs& a) {
  const std::int64_t head = std::int64_t{a.key_dim} * a.value_dim;
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const std::int32_t sequence = a.sequences[r];
    const std::int32_t slot = sequence >= 0 && sequence < a.sequence_count ? a.state_slots[sequence] : kNoStateSlot;
    if (slot < 0 || slot >= a.slots) {
      for (std::int64_t i = 0; i < std::int64_t{a.heads} * a.value_dim; ++i) a.out[r * a.heads * a.value_dim + i] = 0;
      continue;
    }
    float* state = reinterpret_cast<float*>(a.state.get()) + slot * a.heads * head;
    for (std::int32_t h = 0; h < a.heads; ++h) step(a, r, h, state + h * head);
  }
}

}  // namespace plumb::kernels
