// The page that holds a position, as kv_view.h defines it.
#pragma once

#include "kernels/api/kv_view.h"

namespace plumb::kernels {

// The physical page of (sequence, position), or -1 when there is none: a sequence, position or table entry out of bounds.
inline std::int64_t page_of(const KvView& kv, std::int64_t sequence, std::int64_t position) {
  if (sequence < 0 || sequence >= kv.sequences || position < 0) return -1;
  const std::int64_t logical = position / kv.page_rows;
  if (kv.window == 0 && logical >= kv.table_pages) return -1;  // a full-attention table does not wrap
  const std::int64_t page = kv.table[sequence * kv.table_pages + logical % kv.table_pages];
  return page >= 0 && page < kv.pages ? page : -1;
}

}  // namespace plumb::kernels
