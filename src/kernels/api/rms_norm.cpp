#include "kernels/api/rms_norm.h"

#include "kernels/api/arg_check.h"

namespace plumb::kernels {

Status check(const RmsNormArgs& a) {
  return ArgCheck(RmsNormArgs::kName)
      .present("out", a.out)
      .present("in", a.in)
      .present("weight", a.weight)
      .positive("groups", a.groups)
      .positive("cols", a.cols)
      .that(a.eps >= 0, "eps", static_cast<std::int64_t>(a.eps), "not be negative")
      .rows(a.rows)
      .done();
}

device::Cost cost(const RmsNormArgs& a) {
  const std::uint64_t elements = static_cast<std::uint64_t>(a.rows) * a.groups * a.cols;
  return {.bytes_read = elements * 4 + static_cast<std::uint64_t>(a.cols) * 4,
          .bytes_written = elements * 4,
          .flops = elements * 4};
}

}  // namespace plumb::kernels
