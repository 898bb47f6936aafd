#include "kernels/api/sample.h"

#include "kernels/api/arg_check.h"

namespace plumb::kernels {

Status check(const SampleArgs& a) {
  return ArgCheck(SampleArgs::kName)
      .present("out", a.out)
      .present("logits", a.logits)
      .present("params", a.params)
      .present("relay_cells_of", a.relay_cells_of)
      .that(a.relay_cells >= 0, "relay_cells", a.relay_cells, "not be negative")
      .that(a.relay_cells == 0 || a.relay, "relay_cells", a.relay_cells, "be 0 without a relay")
      .that(a.vocab > 0 && a.vocab <= kMaxVocab, "vocab", a.vocab, "be in 1..kMaxVocab")
      .rows(a.rows)
      .done();
}

device::Cost cost(const SampleArgs& a) {
  const auto rows = static_cast<std::uint64_t>(a.rows);
  return {.bytes_read = rows * (static_cast<std::uint64_t>(a.vocab) * 4 + sizeof(SampleParams) + 4),
          .bytes_written = rows * 8,
          .flops = rows * static_cast<std::uint64_t>(a.vocab)};
}

}  // namespace plumb::kernels
