#include "kernels/api/kv_append.h"

#include "kernels/api/arg_check.h"

namespace plumb::kernels {

Status check(const KvAppendArgs& a) {
  PLUMB_TRY(check_kv(KvAppendArgs::kName, a.kv));
  return ArgCheck(KvAppendArgs::kName)
      .present("k", a.k)
      .present("v", a.v)
      .present("positions", a.positions)
      .present("sequences", a.sequences)
      .rows(a.rows)
      .done();
}

device::Cost cost(const KvAppendArgs& a) {
  const auto rows = static_cast<std::uint64_t>(a.rows);
  const auto elements = rows * static_cast<std::uint64_t>(kv_row_elements(a.kv)) * 2;
  return {.bytes_read = elements * 4 + rows * 12,
          .bytes_written = rows * 2 * static_cast<std::uint64_t>(a.kv.kv_heads * kv_head_row_bytes(a.kv.format, a.kv.head_dim)),
          .flops = 0};
}

}  // namespace plumb::kernels
