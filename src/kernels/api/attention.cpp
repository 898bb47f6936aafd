#include "kernels/api/attention.h"

#include "kernels/api/arg_check.h"

namespace plumb::kernels {

Status check(const AttentionArgs& a) {
  PLUMB_TRY(check_kv(AttentionArgs::kName, a.kv));
  return ArgCheck(AttentionArgs::kName)
      .present("out", a.out)
      .present("q", a.q)
      .present("positions", a.positions)
      .present("sequences", a.sequences)
      .that(a.q_heads > 0 && a.q_heads % a.kv.kv_heads == 0, "q_heads", a.q_heads, "be a positive multiple of kv_heads")
      .that(a.softcap >= 0, "softcap", static_cast<std::int64_t>(a.softcap), "not be negative")
      .that(a.partial_places >= 0, "partial_places", a.partial_places, "not be negative")
      .positive("parts", a.parts)
      .rows(a.rows)
      .done();
}

device::Cost cost(const AttentionArgs& a) {
  const auto rows = static_cast<std::uint64_t>(a.rows);
  const std::uint64_t vectors = rows * a.q_heads * a.kv.head_dim * 4;
  return {.bytes_read = vectors + rows * 12 + (a.sinks ? static_cast<std::uint64_t>(a.q_heads) * 4 : 0),
          .bytes_written = vectors,
          .flops = 0};
}

device::Cost attention_span_cost(const AttentionArgs& a, std::uint64_t keys) {
  const auto row = static_cast<std::uint64_t>(a.kv.kv_heads * kv_head_row_bytes(a.kv.format, a.kv.head_dim));
  return {.bytes_read = keys * row * 2,
          .bytes_written = 0,
          .flops = keys * 4 * static_cast<std::uint64_t>(a.q_heads) * a.kv.head_dim};
}

}  // namespace plumb::kernels
