// The four ops of a mixture-of-experts block. A pair is one (row, choice): pair index = row * top_k + choice.
//
//   moe_group    sorts the pairs by expert, so that each expert's weights are read once for all rows that chose it
//   moe_glu      h[pair] = act(Wgate[e] x[row] + bgate[e], Wup[e] x[row] + bup[e])
//   moe_down     y[pair] = Wdown[e] h[pair] + bdown[e]
//   moe_combine  x[row] += sum over choices c, in order, of weight[row][c] * y[row * top_k + c]
//
// Results per pair do not depend on the grouping; the sum of moe_combine has one order. Expert ids are clamped and counted.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/status.h"
#include "device/launch.h"
#include "kernels/api/glu.h"
#include "kernels/api/q8_rows.h"
#include "kernels/api/weight.h"

namespace plumb::kernels {

// moe_group counts in a worker's scratch (1 MiB), 4 bytes an expert; no released model has more than 512.
inline constexpr std::int32_t kMaxExperts = 65536;

struct MoeGroupArgs {
  static constexpr const char* kName = "moe_group";
  Ref<std::int32_t> offsets;         // [expert_count + 1]: pairs of expert e are order[offsets[e] .. offsets[e + 1])
  Ref<std::int32_t> order;           // [rows * top_k] pair indices, by expert, then ascending
  Ref<const std::int32_t> experts;   // [rows][top_k]
  std::int32_t expert_count = 0;
  std::int32_t top_k = 0;
  std::int32_t rows = 0;
};

struct MoeGluArgs {
  static constexpr const char* kName = "moe_glu";
  Ref<float> out;                    // [rows * top_k][gate.rows]
  Ref<const float> in;               // [rows][gate.cols]; absent with packed weights
  Ref<const std::byte> in_q8;        // [rows] q8 rows of gate.cols; with packed weights only
  Ref<const std::int32_t> offsets;   // from moe_group
  Ref<const std::int32_t> order;
  WeightView gate;                   // [experts][ffn][hidden]
  WeightView up;                     // [experts][ffn][hidden]
  Ref<const float> gate_bias;        // optional; element (e, i) at e * bias_expert_stride + i * bias_stride
  Ref<const float> up_bias;
  std::int64_t bias_expert_stride = 0;
  std::int64_t bias_stride = 1;      // 2 where gate and up biases are interleaved
  GluSpec spec;
  std::int32_t top_k = 0;
  std::int32_t rows = 0;
};

struct MoeDownArgs {
  static constexpr const char* kName = "moe_down";
  Ref<float> out;                    // [rows * top_k][down.rows]
  Ref<const float> in;               // [rows * top_k][down.cols]; absent with packed weights
  Ref<const std::byte> in_q8;        // [rows * top_k] q8 rows of down.cols; with packed weights only
  Ref<const std::int32_t> offsets;
  Ref<const std::int32_t> order;
  WeightView down;                   // [experts][hidden][ffn]
  Ref<const float> bias;             // [experts][hidden], optional
  std::int32_t top_k = 0;
  std::int32_t rows = 0;
};

struct MoeCombineArgs {
  static constexpr const char* kName = "moe_combine";
  Ref<float> x;                      // [rows][cols], accumulated into
  Ref<const float> in;               // [rows * top_k][cols]
  Ref<const float> weights;          // [rows][top_k]
  std::int32_t cols = 0;
  std::int32_t top_k = 0;
  std::int32_t rows = 0;
};

namespace detail {
inline std::uint64_t bias_extent(const WeightView& w, std::int64_t expert_stride, std::int64_t stride) {
  return static_cast<std::uint64_t>((w.experts - 1) * expert_stride + (w.rows - 1) * stride + 1) * 4;
}
}  // namespace detail

template <class A, class V>
  requires std::is_same_v<std::remove_const_t<A>, MoeGroupArgs>
void visit_operands(A& a, V&& visit) {
  const std::uint64_t pairs = static_cast<std::uint64_t>(a.rows) * a.top_k;
  visit(OperandInfo{"offsets", Access::write, static_cast<std::uint64_t>(a.expert_count + 1) * 4}, a.offsets);
  visit(OperandInfo{"order", Access::write, pairs * 4}, a.order);
  visit(OperandInfo{"experts", Access::read, pairs * 4}, a.experts);
}
template <class A, class V>
  requires std::is_same_v<std::remove_const_t<A>, MoeGluArgs>
void visit_operands(A& a, V&& visit) {
  const std::uint64_t pairs = static_cast<std::uint64_t>(a.rows) * a.top_k;
  visit(OperandInfo{"out", Access::write, pairs * a.gate.rows * 4}, a.out);
  const auto rows = static_cast<std::uint64_t>(a.rows);
  if (a.in) visit(OperandInfo{"in", Access::read, rows * a.gate.cols * 4}, a.in);
  if (a.in_q8) visit(OperandInfo{"in_q8", Access::read, rows * q8_row_bytes(a.gate.cols)}, a.in_q8);
  visit(OperandInfo{"offsets", Access::read, static_cast<std::uint64_t>(a.gate.experts + 1) * 4}, a.offsets);
  visit(OperandInfo{"order", Access::read, pairs * 4}, a.order);
  visit_weight(a.gate, "gate", "gate_scales", "gate_factors", visit);
  visit_weight(a.up, "up", "up_scales", "up_factors", visit);
  const std::uint64_t bias = detail::bias_extent(a.gate, a.bias_expert_stride, a.bias_stride);
  if (a.gate_bias) visit(OperandInfo{"gate_bias", Access::read, bias}, a.gate_bias);
  if (a.up_bias) visit(OperandInfo{"up_bias", Access::read, bias}, a.up_bias);
}
template <class A, class V>
  requires std::is_same_v<std::remove_const_t<A>, MoeDownArgs>
void visit_operands(A& a, V&& visit) {
  const std::uint64_t pairs = static_cast<std::uint64_t>(a.rows) * a.top_k;
  visit(OperandInfo{"out", Access::write, pairs * a.down.rows * 4}, a.out);
  if (a.in) visit(OperandInfo{"in", Access::read, pairs * a.down.cols * 4}, a.in);
  if (a.in_q8) visit(OperandInfo{"in_q8", Access::read, pairs * q8_row_bytes(a.down.cols)}, a.in_q8);
  visit(OperandInfo{"offsets", Access::read, static_cast<std::uint64_t>(a.down.experts + 1) * 4}, a.offsets);
  visit(OperandInfo{"order", Access::read, pairs * 4}, a.order);
  visit_weight(a.down, "down", "down_scales", "down_factors", visit);
  if (a.bias) visit(OperandInfo{"bias", Access::read, detail::bias_extent(a.down, a.down.rows, 1)}, a.bias);
}
template <class A, class V>
  requires std::is_same_v<std::remove_const_t<A>, MoeCombineArgs>
void visit_operands(A& a, V&& visit) {
  const auto rows = static_cast<std::uint64_t>(a.rows);
  visit(OperandInfo{"x", Access::read_write, rows * a.cols * 4}, a.x);
  visit(OperandInfo{"in", Access::read, rows * a.top_k * a.cols * 4}, a.in);
  visit(OperandInfo{"weights", Access::read, rows * a.top_k * 4}, a.weights);
}
Status check(const MoeGroupArgs& a);
Status check(const MoeGluArgs& a);
Status check(const MoeDownArgs& a);
Status check(const MoeCombineArgs& a);
device::Cost cost(const MoeGroupArgs& a);
// The distinct experts of a step are not known to the host: counted as min(experts, rows * top_k), the worst case.
device::Cost cost(const MoeGluArgs& a);
device::Cost cost(const MoeDownArgs& a);
device::Cost cost(const MoeCombineArgs& a);

}  // namespace plumb::kernels
