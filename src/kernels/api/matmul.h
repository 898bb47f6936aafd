// matmul: out[r][n] (+)= sum_k in[r][k] * weight[n][k] + bias[n], where `in` is rows of f32 or, with packed weights, of q8.
//
// With `accumulate` the sum is added to what out holds (the residual stream). One reduction order for every row count: the
// same lanes, the same steps of k, so a row computed alone and in a batch has the same bits.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/status.h"
#include "device/launch.h"
#include "kernels/api/q8_rows.h"
#include "kernels/api/weight.h"

namespace plumb::kernels {

struct MatmulArgs {
  static constexpr const char* kName = "matmul";
  Ref<float> out;             // [rows][weight.rows]
  Ref<const float> in;        // [rows][weight.cols]; absent with packed weights
  Ref<const std::byte> in_q8; // [rows] q8 rows of weight.cols; with packed weights only
  WeightView weight;          // [n][k]
  Ref<const float> bias;      // [n], optional
  std::int32_t accumulate = 0;
  std::int32_t rows = 0;
};

template <class A, class V>
  requires std::is_same_v<std::remove_const_t<A>, MatmulArgs>
void visit_operands(A& a, V&& visit) {
  const auto rows = static_cast<std::uint64_t>(a.rows);
  visit(OperandInfo{"out", a.accumulate != 0 ? Access::read_write : Access::write, rows * a.weight.rows * 4}, a.out);
  if (a.in) visit(OperandInfo{"in", Access::read, rows * a.weight.cols * 4}, a.in);
  if (a.in_q8) visit(OperandInfo{"in_q8", Access::read, rows * q8_row_bytes(a.weight.cols)}, a.in_q8);
  visit_weight(a.weight, "weight", "weight_scales", "weight_factors", visit);
  if (a.bias) visit(OperandInfo{"bias", Access::read, static_cast<std::uint64_t>(a.weight.rows) * 4}, a.bias);
}
Status check(const MatmulArgs& a);
device::Cost cost(const MatmulArgs& a);

}  // namespace plumb::kernels
