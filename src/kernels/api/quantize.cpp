#include "kernels/api/quantize.h"

#include "kernels/api/arg_check.h"

namespace plumb::kernels {

Status check(const QuantizeArgs& a) {
  return ArgCheck(QuantizeArgs::kName)
      .present("out", a.out)
      .present("in", a.in)
      .positive("groups", a.groups)
      .positive("cols", a.cols)
      .that(a.cols % kQ8Block == 0, "cols", a.cols, "be a whole number of blocks of 32")
      .rows(a.rows)
      .done();
}

device::Cost cost(const QuantizeArgs& a) {
  const std::uint64_t vectors = static_cast<std::uint64_t>(a.rows) * a.groups;
  return {.bytes_read = vectors * a.cols * 4,
          .bytes_written = vectors * q8_row_bytes(a.cols),
          .flops = vectors * a.cols * 3};  // magnitude, product, rounding
}

}  // namespace plumb::kernels
