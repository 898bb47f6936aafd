#include "kernels/api/rope.h"

#include "kernels/api/arg_check.h"

namespace plumb::kernels {

Status check(const RopeTableArgs& a) {
  return ArgCheck(RopeTableArgs::kName)
      .present("out", a.out)
      .present("positions", a.positions)
      .present("frequencies", a.frequencies)
      .positive("pairs", a.pairs)
      .rows(a.rows)
      .done();
}

Status check(const RopeArgs& a) {
  return ArgCheck(RopeArgs::kName)
      .present("x", a.x)
      .present("table", a.table)
      .positive("heads", a.heads)
      .positive("head_dim", a.head_dim)
      .that(a.pairs > 0 && std::int64_t{2} * a.pairs <= a.head_dim, "pairs", a.pairs, "be in 1..head_dim / 2")
      .rows(a.rows)
      .done();
}

device::Cost cost(const RopeTableArgs& a) {
  const std::uint64_t angles = static_cast<std::uint64_t>(a.rows) * a.pairs;
  return {.bytes_read = static_cast<std::uint64_t>(a.rows + a.pairs) * 4, .bytes_written = angles * 8, .flops = angles * 3};
}

device::Cost cost(const RopeArgs& a) {
  const std::uint64_t rotated = static_cast<std::uint64_t>(a.rows) * a.heads * a.pairs;
  return {.bytes_read = rotated * 8 + static_cast<std::uint64_t>(a.rows) * a.pairs * 8,
          .bytes_written = rotated * 8,
          .flops = rotated * 6};
}

}  // namespace plumb::kernels
