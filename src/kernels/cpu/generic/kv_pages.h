// Where the keys of a sequence lie: pages, and the runs of keys that a chunk finds in them.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// Keys of one online-softmax update. 64 scores are 8 vectors, so exp runs without tails; the update of the accumulator costs
// head_dim operations against 2 * 64 * head_dim for the chunk.
inline constexpr int kChunk = kAttentionChunk;

inline std::int64_t logical_page(const KvView& kv, std::int64_t position) {
  return position >> std::countr_zero(static_cast<std::uint32_t>(kv.page_rows));  // a power of two
}

// The page that holds `position` of a sequence, or -1. Every reason for -1 is counted, and `row` of the batch named.
inline std::int64_t page_of(const KvView& kv, std::int64_t sequence, std::int64_t position, std::int64_t row, device::Worker& w) {
  std::int64_t logical = logical_page(kv, position);
  if (kv.window == 0) {
    // A full-attention table does not wrap: a position behind its end is a reservation that is too short.
    if (w.index_in(logical, kv.table_pages, row) != logical) return -1;
  } else {
    logical %= kv.table_pages;
  }
  const std::int64_t page = kv.table[sequence * kv.table_pages + logical];
  return w.index_in(page, kv.pages, row) == page ? page : -1;
}

// Counts a sequence or position out of bounds; false then.
inline bool valid_row(const KvView& kv, std::int64_t sequence, std::int64_t position, std::int64_t row, device::Worker& w) {
  return w.index_in(sequence, kv.sequences, row) == sequence &&
         w.index_in(position, std::int64_t{1} << 31, row) == position;
}

// A run of keys that lies in one page: [first, first + count), and the K and V rows of one head. The scales are null where the form
// has none; what lies ahead (ask_keys.h) where nothing is to be asked for.
struct KeyRun {
  std::int64_t first;
  int count;
  std::int32_t page;
  const std::byte* k;
  const std::byte* v;
  const float* k_scales;
  const float* v_scales;
  const std::byte* k_ahead;
  const std::byte* v_ahead;
  bool near;  // what lies ahead is soon used
};

// The runs of one chunk. A page may hold a single row.
struct ChunkRuns {
  int count = 0;
  int keys = 0;  // of all runs
  KeyRun runs[kChunk];
};

// Finds the keys [lo, hi) of one chunk, for `batch_row`. Keys of missing pages are left out (and counted).
inline void find_runs(const KvView& kv, std::int64_t sequence, int kv_head, std::int64_t lo, std::int64_t hi, std::int64_t batch_row, device::Worker& w,
                      ChunkRuns& out) {
  const bool scaled = kv.format == KvFormat::q8;
  out.count = 0;
  out.keys = 0;
  for (std::int64_t key = lo; key < hi;) {
    const std::int64_t in_page = key & (kv.page_rows - 1);
    const std::int64_t left = kv.page_rows - in_page;
    const std::int64_t end = key + left < hi ? key + left : hi;
    const std::int64_t page = page_of(kv, sequence, key, batch_row, w);
    if (page >= 0) {
      const std::int64_t block = kv_block(kv, page, kv_head);
      const std::int64_t row = block + kv_row_in_block(kv, in_page);
      const std::int64_t scale = block + kv_scales_in_block(kv) + in_page * 4;
      out.runs[out.count++] = {key,
                               static_cast<int>(end - key),
                               static_cast<std::int32_t>(page),
                               kv.k.get() + row,
                               kv.v.get() + row,
                               scaled ? reinterpret_cast<const float*>(kv.k.get() + scale) : nullptr,
                               scaled ? reinterpret_cast<const float*>(kv.v.get() + scale) : nullptr,
                               nullptr,
                               nullptr,
                               false};
      out.keys += static_cast<int>(end - key);
    }
    key = end;
  }
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
