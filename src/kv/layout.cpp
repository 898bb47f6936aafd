#include "kv/layout.h"

#include <limits>

#include "base/parse_limits.h"

namespace plumb::kv {

std::uint64_t KvLayout::total_bytes() const {
  std::uint64_t bytes = 0;
  for (const KvClass& c : classes) bytes += c.pool_bytes();
  return bytes;
}

std::vector<kernels::KvClassGeometry> KvLayout::geometry() const {
  std::vector<kernels::KvClassGeometry> all;
  for (const KvClass& c : classes) all.push_back(c.geometry);
  return all;
}

Result<KvLayout> plan_kv(const model::DecoderSpec& spec, const KvOptions& o) {
  const auto bad = [&](const char* field, std::int64_t value, std::string why) {
    return fail(ErrorCode::invalid_argument, std::move(why), "kv options", field, std::to_string(value));
  };
  if (o.context <= 0 || o.context > spec.max_positions) {
    return bad("context", o.context, "must be between 1 and the model's " + std::to_string(spec.max_positions) + " positions");
  }
  if (o.sequences <= 0) return bad("sequences", o.sequences, "must be at least 1");
  if (o.chunk_rows <= 0) return bad("chunk_rows", o.chunk_rows, "must be at least 1");
  if (o.chain_depth < 0) return bad("chain_depth", o.chain_depth, "must not be negative");

  KvLayout layout{o, {}};
  for (const std::int32_t window : model::layer_classes(spec)) {
    const Residency residency = window > 0 ? Residency(WindowResidency(window, o.chunk_rows + o.chain_depth))
                                           : Residency(FullResidency(o.context));
    KvClass c{residency, {}, 0, 0};
    // A window at least as long as the context never wraps; its ring would only be longer than the sequence.
    const std::int64_t per_sequence = residency.table_pages();
    std::int64_t pages = per_sequence * o.sequences;
    if (residency.full() && o.pool_positions > 0) {
      pages = (o.pool_positions + kPageRows - 1) / kPageRows;
      if (pages < 1) pages = 1;
    }
    if (!residency.full()) pages += o.snapshot_pages;
    if (pages > std::numeric_limits<std::int32_t>::max()) return bad("sequences", o.sequences, "needs more than 2^31 pages");
    c.geometry = {.window = window,
                  .pages = static_cast<std::int32_t>(pages),
                  .page_rows = kPageRows,
                  .table_pages = residency.table_pages(),
                  .sequences = o.sequences,
                  .format = o.format};
    for (const model::LayerSpec& layer : spec.layers) {
      const auto* a = std::get_if<model::AttentionSpec>(&layer.mixer);
      if (a == nullptr || a->window != window) continue;
      ++c.layers;
      c.page_bytes += std::uint64_t{2} * kPageRows * a->kv_heads * kernels::kv_head_row_bytes(o.format, a->head_dim);
    }
    if (!checked_mul(c.page_bytes, static_cast<std::uint64_t>(pages))) {
      return bad("context", o.context, "the KV pool would not fit the address space");
    }
    layout.classes.push_back(c);
  }
  return layout;
}

}  // namespace plumb::kv
