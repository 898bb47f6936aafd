#include "kernels/api/digest.h"

#include "kernels/api/arg_check.h"

namespace plumb::kernels {

Status check(const DigestArgs& a) {
  return ArgCheck(DigestArgs::kName).present("out", a.out).present("in", a.in).positive("cols", a.cols).rows(a.rows).done();
}

device::Cost cost(const DigestArgs& a) {
  return {.bytes_read = static_cast<std::uint64_t>(a.rows) * a.cols * 4,
          .bytes_written = static_cast<std::uint64_t>(a.rows) * 8,
          .flops = 0};
}

}  // namespace plumb::kernels
