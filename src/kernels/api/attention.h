// attention: for row r and query head h, over the visible keys j of the row's sequence (kv_view.h),
//   s_j = scale * q . k_j, soft-capped to cap * tanh(s_j / cap) when softcap > 0,
//   out = sum_j exp(s_j - m) v_j / (sum_j exp(s_j - m) + exp(sink_h - m)),   m = max(max_j s_j, sink_h).
// The sink is a learned logit without a value (gpt-oss); it is not multiplied by the scale. Query head h reads KV head
// h / (q_heads / kv_heads).
//
// The row's own key must have been appended before. The visible keys are walked in pages by absolute position, so the order
// of the sum does not depend on how a prompt was cut into steps. The running (m, l, o) update is Milakov & Gimelshein, arXiv
// 1805.02867.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/status.h"
#include "device/launch.h"
#include "kernels/api/kv_view.h"

namespace plumb::kernels {

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
};

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
}
Status check(const AttentionArgs& a);
// Bytes and flops depend on positions the host knows and the args do not: counted for a span of one page; the executor adds
// attention_span_cost for the rest.
device::Cost cost(const AttentionArgs& a);
// What attending over `keys` visible keys in all adds: K and V read once per KV head, 4 flops per key, head and element.
device::Cost attention_span_cost(const AttentionArgs& a, std::uint64_t keys);

}  // namespace plumb::kernels
