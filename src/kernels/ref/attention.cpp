#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/ref/kv_page.h"
#include "kernels/ref/reference.h"

namespace plumb::kernels {
namespace {

// One query head of one row.
void attend(const AttentionArgs& a, std::int64_t r, std::int32_t h) {
  const KvView& kv = a.kv;
  const std::int32_t kv_head = h / (a.q_heads / kv.kv_heads);
  const float* q = a.q.get() + (r * a.q_heads + h) * kv.head_dim;
  float* out = a.out.get() + (r * a.q_heads + h) * kv.head_dim;

  std::vector<double> scores;
  std::vector<std::vector<double>> values;
  double largest = -std::numeric_limits<double>::infinity();
  if (a.sinks) largest = a.sinks[h];
  for (std::int64_t j = kv_first_visible(kv, a.positions[r]); j <= a.positions[r]; ++j) {
    const std::int64_t page = page_of(kv, a.sequences[r], j);
    if (page < 0) continue;
    const std::int64_t row = j % kv.page_rows;
    double score = 0;
    std::vector<double> value;
    for (std::int64_t d = 0; d < kv.head_dim; ++d) {
      score += double{q[d]} * kv_load(kv, kv.k.get(), page, kv_head, row, d);
      value.push_back(kv_load(kv, kv.v.get(), page, kv_head, row, d));
    }
    score *= a.scale;
    if (a.softcap > 0) score = a.softcap * std::tanh(score / a.softcap);
    scores.push_back(score);
    values.push_back(std::move(value));
    largest = std::max(largest, score);
  }

  double total = a.sinks ? std::exp(a.sinks[h] - largest) : 0.0;
  for (const double score : scores) total += std::exp(score - largest);
  for (std::int64_t d = 0; d < kv.head_dim; ++d) {
    double sum = 0;
    for (std::size_t j = 0; j < scores.size(); ++j) sum += std::exp(scores[j] - largest) * values[j][d];
    out[d] = scores.empty() ? 0.0F : static_cast<float>(sum / total);
  }
}

}  // namespace

void reference(const AttentionArgs& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    for (std::int32_t h = 0; h < a.q_heads; ++h) attend(a, r, h);
  }
}

}  // namespace plumb::kernels
