#include "kernels/api/embed.h"

#include "kernels/api/arg_check.h"

namespace plumb::kernels {

Status check(const EmbedArgs& a) {
  return ArgCheck(EmbedArgs::kName)
      .present("out", a.out)
      .present("tokens", a.tokens)
      .present("sources", a.sources)
      .that(a.relay_cells >= 0, "relay_cells", a.relay_cells, "not be negative")
      .that(a.relay_cells == 0 || a.relay, "relay_cells", a.relay_cells, "be 0 without a relay")
      .weight("table", a.table)
      .rows(a.rows)
      .done();
}

device::Cost cost(const EmbedArgs& a) {
  const auto rows = static_cast<std::uint64_t>(a.rows);
  return {.bytes_read = rows * (weight_row_bytes(a.table) + 8), .bytes_written = rows * a.table.cols * 4, .flops = 0};
}

}  // namespace plumb::kernels
