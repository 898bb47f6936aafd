// What a kernel knows of the KV cache: pages, never a contiguous cache.
//
// Positions are grouped into logical pages of `page_rows`. Each sequence has a page table; logical page n of a sequence is
// physical page table[n % table_pages]. A full-attention layer has table_pages >= all its pages, so nothing wraps; a
// sliding-window layer has a ring just long enough for the window and the rows of one step. A cell that was never written
// holds kNoPage, never a valid page. All layers of one class (same window) share one table; each layer has its own storage.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "kernels/api/ref.h"

namespace plumb::kernels {

inline constexpr std::int32_t kNoPage = -1;

// The form of a cached element. All but f32 are representation changes, with their budgets in docs/QUALITY.md.
// q8: each row of each head is rounded to signed bytes with one float32 scale, largest magnitude / 127 (like `quantize`; zero when
// that magnitude is below kQ8Smallest, NaN when an element is not finite). One scale a head row, not one per 32 elements: it
// factors out of a whole score and of a whole probability, so attention multiplies by it once a key and not once a block.
enum class KvFormat : std::uint8_t { f32, f16, bf16, q8 };
inline constexpr KvFormat kKvFormats[] = {KvFormat::f32, KvFormat::f16, KvFormat::bf16, KvFormat::q8};

const char* to_string(KvFormat format);
// By the names above. Errors: invalid_argument naming `field`.
Result<KvFormat> parse_kv_format(const char* field, const std::string& name);

// One head's accumulator and one chunk of scores of a group stay in a worker's cache; no released model goes above 512.
inline constexpr std::int32_t kMaxHeadDim = 512;

// Storage of one layer's K and V: blocks, each the page_rows rows of one head in one page: [page_rows][head_dim] elements of `format`, then for
// q8 the float32 scales [page_rows]. The blocks of one head lie side by side for kKvSpanPages pages, then the next head's: [spans][kv_heads]
// [pages of the span]; the last span may be shorter. So a head's keys in neighbouring pages, which a sequence has where it can (kv/page_pool.h),
// are one stream, as long as processors' prefetchers like it; and a short sequence touches one end of the pool and not a place for each head.
inline constexpr std::int64_t kKvSpanPages = 64;

struct KvView {
  Ref<std::byte> k;
  Ref<std::byte> v;
  Ref<const std::int32_t> table;  // [sequences][table_pages] physical pages
  KvFormat format = KvFormat::f32;
  std::int32_t pages = 0;         // physical pages of the pool; a table entry outside [0, pages) is a counted fault
  std::int32_t page_rows = 0;     // power of two
  std::int32_t table_pages = 0;
  std::int32_t sequences = 0;
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;
  std::int32_t window = 0;        // key visible iff 0 <= q - k < window; 0: every k <= q
};

// How many pages of which shape one layer class has: what kv/ decides and lowering turns into KvViews.
struct KvClassGeometry {
  std::int32_t window = 0;       // identifies the class: all layers with this window
  std::int32_t pages = 0;
  std::int32_t page_rows = 0;
  std::int32_t table_pages = 0;
  std::int32_t sequences = 0;
  KvFormat format = KvFormat::f32;
};

inline std::int64_t kv_row_elements(const KvView& kv) { return std::int64_t{kv.kv_heads} * kv.head_dim; }
inline constexpr std::int64_t kv_element_bytes(KvFormat f) { return f == KvFormat::f32 ? 4 : f == KvFormat::q8 ? 1 : 2; }
// What one row of one head takes: its elements, and its scale where the form has one.
inline constexpr std::int64_t kv_head_row_bytes(KvFormat f, std::int64_t head_dim) {
  return head_dim * kv_element_bytes(f) + (f == KvFormat::q8 ? 4 : 0);
}
inline std::uint64_t kv_pool_bytes(const KvView& kv) {
  return static_cast<std::uint64_t>(kv.pages) * kv.page_rows * kv.kv_heads * kv_head_row_bytes(kv.format, kv.head_dim);
}
// Byte offset of the block of (page, head), of a row's elements inside a block, and of the scales inside a block (q8).
inline std::int64_t kv_block_bytes(const KvView& kv) { return kv.page_rows * kv_head_row_bytes(kv.format, kv.head_dim); }
inline std::int64_t kv_block(const KvView& kv, std::int64_t page, int head) {
  const std::int64_t span = page / kKvSpanPages * kKvSpanPages;
  const std::int64_t pages = kv.pages - span < kKvSpanPages ? kv.pages - span : kKvSpanPages;
  return (span * kv.kv_heads + head * pages + page - span) * kv_block_bytes(kv);
}
inline std::int64_t kv_row_in_block(const KvView& kv, std::int64_t row) { return row * kv.head_dim * kv_element_bytes(kv.format); }
inline std::int64_t kv_scales_in_block(const KvView& kv) { return kv_row_in_block(kv, kv.page_rows); }
// First position visible from `position`.
inline std::int64_t kv_first_visible(const KvView& kv, std::int64_t position) {
  return kv.window > 0 && position >= kv.window ? position - kv.window + 1 : 0;
}

// The part of an op's check that concerns its KvView.
Status check_kv(const char* op, const KvView& kv);

template <class View, class Visitor>
void visit_kv(View& kv, Access access, Visitor&& visit) {
  visit(OperandInfo{"k", access, kv_pool_bytes(kv)}, kv.k);
  visit(OperandInfo{"v", access, kv_pool_bytes(kv)}, kv.v);
  visit(OperandInfo{"page_table", Access::read, static_cast<std::uint64_t>(kv.sequences) * kv.table_pages * 4}, kv.table);
}

}  // namespace plumb::kernels
