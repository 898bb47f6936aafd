#include "kernels/api/gated_delta.h"

#include "kernels/api/arg_check.h"

namespace plumb::kernels {

Status check(const GatedDeltaArgs& a) {
  const auto dim = [](std::int32_t n) { return n >= 1 && n <= kMaxStateDim; };
  return ArgCheck(GatedDeltaArgs::kName)
      .present("out", a.out)
      .present("state", a.state)
      .present("q", a.q)
      .present("k", a.k)
      .present("v", a.v)
      .present("decay", a.decay)
      .present("beta", a.beta)
      .present("sequences", a.sequences)
      .present("state_slots", a.state_slots)
      .positive("sequence_count", a.sequence_count)
      .positive("slots", a.slots)
      .positive("heads", a.heads)
      .that(dim(a.key_dim), "key_dim", a.key_dim, "be from 1 to 512")
      .that(dim(a.value_dim), "value_dim", a.value_dim, "be from 1 to 512")
      .rows(a.rows)
      .done();
}

device::Cost cost(const GatedDeltaArgs& a) {
  const auto rows = static_cast<std::uint64_t>(a.rows);
  const auto heads = static_cast<std::uint64_t>(a.heads);
  const std::uint64_t in = rows * heads * static_cast<std::uint64_t>(2 * a.key_dim + a.value_dim + 2) * 4;
  device::Cost cost{.bytes_read = in + rows * 4 + static_cast<std::uint64_t>(a.sequence_count) * 4 + (a.rates ? heads * 4 : 0),
                    .bytes_written = rows * heads * static_cast<std::uint64_t>(a.value_dim) * 4,
                    // Per cell of the state: forget (1), answer to k (2), move (2), answer to q (2).
                    .flops = rows * state_slot_bytes(a.heads, a.key_dim, a.value_dim) / 4 * 7};
  if (rows > 0) cost += gated_delta_state_cost(a, 1);
  return cost;
}

device::Cost gated_delta_state_cost(const GatedDeltaArgs& a, std::uint64_t sequences) {
  const std::uint64_t bytes = sequences * state_slot_bytes(a.heads, a.key_dim, a.value_dim);
  return {.bytes_read = bytes, .bytes_written = bytes, .flops = 0};
}

}  // namespace plumb::kernels
