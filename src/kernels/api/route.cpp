#include "kernels/api/route.h"

#include <algorithm>

#include "kernels/api/arg_check.h"

namespace plumb::kernels {

Status check(const RouteArgs& a) {
  return ArgCheck(RouteArgs::kName)
      .present("experts", a.experts)
      .present("weights", a.weights)
      .present("logits", a.logits)
      .positive("expert_count", a.expert_count)
      .that(a.top_k >= 1 && a.top_k <= std::min(a.expert_count, kMaxTopK), "top_k", a.top_k,
            "be in 1..min(expert_count, kMaxTopK)")
      .rows(a.rows)
      .done();
}

device::Cost cost(const RouteArgs& a) {
  const auto rows = static_cast<std::uint64_t>(a.rows);
  return {.bytes_read = rows * a.expert_count * 4,
          .bytes_written = rows * a.top_k * 8,
          .flops = rows * (static_cast<std::uint64_t>(a.expert_count) + 4 * static_cast<std::uint64_t>(a.top_k))};
}

}  // namespace plumb::kernels
