#include "kernels/api/matmul.h"

#include "kernels/api/arg_check.h"

namespace plumb::kernels {

Status check(const MatmulArgs& a) {
  return ArgCheck(MatmulArgs::kName)
      .present("out", a.out)
      .weight("weight", a.weight)
      .activations(a.in, a.in_q8, a.weight.format)
      .rows(a.rows)
      .done();
}

device::Cost cost(const MatmulArgs& a) {
  const auto rows = static_cast<std::uint64_t>(a.rows);
  const auto n = static_cast<std::uint64_t>(a.weight.rows);
  const auto k = static_cast<std::uint64_t>(a.weight.cols);
  if (rows == 0) return {};
  device::Cost cost;
  cost.bytes_read = rows * (a.in_q8 ? q8_row_bytes(a.weight.cols) : k * 4) + n * weight_row_bytes(a.weight);
  if (a.bias) cost.bytes_read += n * 4;
  if (a.accumulate != 0) cost.bytes_read += rows * n * 4;
  cost.bytes_written = rows * n * 4;
  cost.flops = 2 * rows * n * k;
  return cost;
}

}  // namespace plumb::kernels
