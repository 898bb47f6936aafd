#include "kernels/api/advance.h"

#include "kernels/api/arg_check.h"

namespace plumb::kernels {

Status check(const AdvanceArgs& a) {
  return ArgCheck(AdvanceArgs::kName)
      .present("lengths", a.lengths)
      .present("positions", a.positions)
      .present("sequences", a.sequences)
      .positive("sequence_count", a.sequence_count)
      .rows(a.rows)
      .done();
}

device::Cost cost(const AdvanceArgs& a) {
  const auto rows = static_cast<std::uint64_t>(a.rows);
  return {.bytes_read = rows * 8, .bytes_written = rows * 4, .flops = 0};
}

}  // namespace plumb::kernels
