#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/counter_rng.h"
#include "kernels/ref/reference.h"

namespace plumb::kernels {
namespace {

std::int32_t draw(const float* logits, std::int32_t vocab, const SampleParams& p) {
  for (std::int32_t i = 0; i < vocab; ++i) {
    if (!std::isfinite(logits[i])) return kInvalidToken;
  }
  std::vector<std::int32_t> kept(static_cast<std::size_t>(vocab));  // falling logit, then rising id
  std::iota(kept.begin(), kept.end(), 0);
  std::erase_if(kept, [&](auto i) { return logits[i] == kBannedLogit; });
  if (kept.empty()) return kInvalidToken;
  std::stable_sort(kept.begin(), kept.end(), [&](auto x, auto y) { return logits[x] > logits[y]; });
  if (p.temperature == 0) return kept.front();

  const double largest = logits[kept.front()];
  const auto weight = [&](std::int32_t i) { return std::exp((logits[i] - largest) / p.temperature); };
  const auto total = [&] {
    double sum = 0;
    for (const std::int32_t i : kept) sum += weight(i);
    return sum;
  };
  if (p.top_k > 0) kept.resize(std::min(kept.size(), static_cast<std::size_t>(p.top_k)));
  if (p.top_p < 1) {
    const double wanted = p.top_p * total();
    double reached = 0;
    std::size_t size = 0;
    while (size < kept.size() && reached < wanted) reached += weight(kept[size++]);
    kept.resize(std::max<std::size_t>(size, 1));
  }
  if (p.min_p > 0) std::erase_if(kept, [&](auto i) { return weight(i) < p.min_p; });

  std::sort(kept.begin(), kept.end());
  const auto key = Philox{p.seed};
  const double target = key.uniform(static_cast<std::uint32_t>(p.position), static_cast<std::uint32_t>(p.choice)) * total();
  double reached = 0;
  for (const std::int32_t i : kept) {
    reached += weight(i);
    if (reached > target) return i;
  }
  return kept.back();
}

}  // namespace

void reference(const SampleArgs& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const std::int32_t token = draw(a.logits.get() + r * a.vocab, a.vocab, a.params[r]);
    a.out[r] = token;
    const std::int32_t cell = a.relay_cells_of[r];
    if (cell >= 0 && cell < a.relay_cells) a.relay[cell] = token;
  }
}

}  // namespace plumb::kernels
