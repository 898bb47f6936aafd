// attention: for row r and query head h, over the visible keys j of the row's sequence (kv_view.h),
//   s_j = scale * q . k_j, soft-capped to cap * tanh(s_j / cap) when softcap > 0,
//   out = sum_j exp(s_j - m) v_j / (sum_j exp(s_j - m) + exp(sink_h - m)),   m = max(max_j s_j, sink_h).
// The sink is a learned logit without a value (gpt-oss); it is not multiplied by the scale. Query head h reads KV head
// h / (q_heads / kv_heads).
//
// The row's own key must have been appended before. The running (m, l, o) update is Milakov & Gimelshein, arXiv 1805.02867.
//
// Over q8 pages both products are of whole numbers, whose sums are exact in 32 bits. A query head is rounded to codes, its largest magnitude to
// kQueryCodes; and for each chunk of kAttentionChunk keys, by absolute position, exp(s_j - m) times the scale of v_j is, the largest of the chunk
// to kWeightCodes, where m is the largest score of the slice so far. Both roundings are 1/256 of what q8 did to the keys and values.
//
// One order of summation for all kernels of a backend, so that they are bit-equal and a row's bits do not depend on which of them
// ran, on its batch, on threads, on pages, or on how its prompt was cut into steps. Keys belong by their absolute position to slices
// of kAttentionSlice, and slices to stretches of kAttentionStretch. A slice is walked in rising chunks with one running (m, l, o); a
// stretch is the first of its slices that the row sees with the others merged into it in rising order; stretches are merged in rising
// order into a total that starts at (sink, 1, 0), or (-inf, 0, 0) without a sink. What has no key (its pages are missing) adds nothing. So a kernel may give slices or whole stretches of a row to different workers
// and merge what they found: slices where there are few keys for the workers, stretches where there are many and to keep every slice
// apart would cost memory and a long merge at the end.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/status.h"
#include "device/launch.h"
#include "kernels/api/kv_view.h"

namespace plumb::kernels {

inline constexpr std::int64_t kAttentionSlice = 256;
inline constexpr std::int64_t kAttentionStretch = 2048;
static_assert(kAttentionStretch % kAttentionSlice == 0);
inline constexpr std::int64_t kAttentionChunk = 64;
static_assert(kAttentionSlice % kAttentionChunk == 0);
// The largest codes over q8: 256 * 127, of two digits of a signed byte, and what a signed word holds.
inline constexpr int kQueryCodes = 32512;
inline constexpr int kWeightCodes = 32767;
static_assert(std::int64_t{kMaxHeadDim} * kQueryCodes * 127 < (std::int64_t{1} << 31));
static_assert(kAttentionChunk * kWeightCodes * 127 < (std::int64_t{1} << 31));
// Slices, and stretches, that a row at `position` sees, when `first` is the first key it sees.
inline constexpr std::int64_t attention_slices(std::int64_t first, std::int64_t position) {
  return position / kAttentionSlice - first / kAttentionSlice + 1;
}
inline constexpr std::int64_t attention_stretches(std::int64_t first, std::int64_t position) {
  return position / kAttentionStretch - first / kAttentionStretch + 1;
}

struct AttentionArgs {
  static constexpr const char* kName = "attention";
  Ref<float> out;                      // [rows][q_heads][head_dim]
  Ref<const float> q;                  // [rows][q_heads][head_dim], already rotated
  KvView kv;
  Ref<const float> sinks;              // [q_heads], optional
  Ref<const std::int32_t> positions;   // [rows]
  Ref<const std::int32_t> sequences;   // [rows]
  float scale = 1;
  float softcap = 0;
  std::int32_t q_heads = 0;
  std::int32_t rows = 0;
  // For kernels that share the slices or stretches of a row among workers: room for (m, l, o) of that many, over all rows of the
  // launch. A row that finds no room is one task for each tile of heads. Optional.
  Ref<float> partials;                 // [partial_places][q_heads][head_dim + 8]
  std::int32_t partial_places = 0;
  // Tasks that a row's slices are shared out to by seqpar, for each KV head; set by whoever chooses the kernel, at least 1. No bit
  // depends on it.
  std::int32_t parts = 1;
};

inline std::uint64_t attention_partial_bytes(std::int64_t places, std::int64_t q_heads, std::int64_t head_dim) {
  return static_cast<std::uint64_t>(places) * static_cast<std::uint64_t>(q_heads) * static_cast<std::uint64_t>(head_dim + 8) * 4;
}

template <class A, class V>
  requires std::is_same_v<std::remove_const_t<A>, AttentionArgs>
void visit_operands(A& a, V&& visit) {
  const auto rows = static_cast<std::uint64_t>(a.rows);
  const std::uint64_t bytes = rows * a.q_heads * a.kv.head_dim * 4;
  visit(OperandInfo{"out", Access::write, bytes}, a.out);
  visit(OperandInfo{"q", Access::read, bytes}, a.q);
  visit_kv(a.kv, Access::read, visit);
  if (a.sinks) visit(OperandInfo{"sinks", Access::read, static_cast<std::uint64_t>(a.q_heads) * 4}, a.sinks);
  visit(OperandInfo{"positions", Access::read, rows * 4}, a.positions);
  visit(OperandInfo{"sequences", Access::read, rows * 4}, a.sequences);
  if (a.partials) {
    visit(OperandInfo{"partials", Access::scratch, attention_partial_bytes(a.partial_places, a.q_heads, a.kv.head_dim)}, a.partials);
  }
}
Status check(const AttentionArgs& a);
// But for the keys: how many there are depends on positions that the host knows and the args do not, so whoever launches adds
// attention_span_cost.
device::Cost cost(const AttentionArgs& a);
// What attending over `keys` visible keys in all adds: K and V read once per KV head, 4 flops per key, head and element.
device::Cost attention_span_cost(const AttentionArgs& a, std::uint64_t keys);

}  // namespace plumb::kernels
