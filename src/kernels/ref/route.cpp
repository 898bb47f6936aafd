#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/ref/reference.h"

namespace plumb::kernels {

void reference(const RouteArgs& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const float* logits = a.logits.get() + r * a.expert_count;
    std::vector<std::int32_t> by_logit(static_cast<std::size_t>(a.expert_count));
    std::iota(by_logit.begin(), by_logit.end(), 0);
    std::stable_sort(by_logit.begin(), by_logit.end(), [&](auto x, auto y) { return logits[x] > logits[y]; });
    double total = 0;
    for (std::int64_t c = 0; c < a.top_k; ++c) total += std::exp(double{logits[by_logit[c]]} - logits[by_logit[0]]);
    for (std::int64_t c = 0; c < a.top_k; ++c) {
      a.experts[r * a.top_k + c] = by_logit[c];
      a.weights[r * a.top_k + c] =
          static_cast<float>(std::exp(double{logits[by_logit[c]]} - logits[by_logit[0]]) / total);
    }
  }
}

}  // namespace plumb::kernels
