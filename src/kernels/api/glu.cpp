#include "kernels/api/glu.h"

#include "kernels/api/arg_check.h"

namespace plumb::kernels {

Status check(const GluArgs& a) {
  return ArgCheck(GluArgs::kName)
      .present("out", a.out)
      .present("gate", a.gate)
      .present("up", a.up)
      .positive("cols", a.cols)
      .rows(a.rows)
      .done();
}

device::Cost cost(const GluArgs& a) {
  const std::uint64_t elements = static_cast<std::uint64_t>(a.rows) * a.cols;
  return {.bytes_read = elements * 8, .bytes_written = elements * 4, .flops = elements * 8};
}

}  // namespace plumb::kernels
