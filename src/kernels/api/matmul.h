// matmul: out[r][n] (+)= sum_k in[r][k] * weight[n][k] + bias[n].
//
// With `accumulate` the sum is added to what out holds (the residual stream). One reduction order for every row count: the
// same lanes, the same steps of k, so a row computed alone and in a batch has the same bits.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/status.h"
#include "device/launch.h"
#include "kernels/api/weight.h"

namespace plumb::kernels {

struct MatmulArgs {
  static constexpr const char* kName = "matmul";
  Ref<float> out;             // [rows][weight.rows]
  Ref<const float> in;        // [rows][weight.cols]
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
  visit(OperandInfo{"in", Access::read, rows * a.weight.cols * 4}, a.in);
  visit_weight(a.weight, "weight", "weight_scales", visit);
  if (a.bias) visit(OperandInfo{"bias", Access::read, static_cast<std::uint64_t>(a.weight.rows) * 4}, a.bias);
}
Status check(const MatmulArgs& a);
device::Cost cost(const MatmulArgs& a);

}  // namespace plumb::kernels
