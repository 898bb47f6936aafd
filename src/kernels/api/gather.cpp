#include "kernels/api/gather.h"

#include "kernels/api/arg_check.h"

namespace plumb::kernels {

Status check(const GatherArgs& a) {
  return ArgCheck(GatherArgs::kName)
      .present("out", a.out)
      .present("in", a.in)
      .present("indices", a.indices)
      .positive("in_rows", a.in_rows)
      .positive("cols", a.cols)
      .rows(a.rows)
      .done();
}

device::Cost cost(const GatherArgs& a) {
  const std::uint64_t bytes = static_cast<std::uint64_t>(a.rows) * a.cols * 4;
  return {.bytes_read = bytes + static_cast<std::uint64_t>(a.rows) * 4, .bytes_written = bytes, .flops = 0};
}

}  // namespace plumb::kernels
