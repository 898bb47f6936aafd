// rms_norm: out[r][i] = in[r][i] / sqrt(mean_i(in[r][i]^2) + eps) * weight[i].   Zhang & Sennrich, arXiv 1910.07467.
//
// With groups > 1 each row is that many independent vectors of `cols` (QK-norm over heads), all with the same weight.
// out may be in.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/status.h"
#include "device/launch.h"
#include "kernels/api/ref.h"

namespace plumb::kernels {

struct RmsNormArgs {
  static constexpr const char* kName = "rms_norm";
  Ref<float> out;            // [rows][groups][cols]
  Ref<const float> in;       // [rows][groups][cols]
  Ref<const float> weight;   // [cols]
  float eps = 0;
  std::int32_t groups = 1;
  std::int32_t cols = 0;
  std::int32_t rows = 0;
};

template <class A, class V>
  requires std::is_same_v<std::remove_const_t<A>, RmsNormArgs>
void visit_operands(A& a, V&& visit) {
  const std::uint64_t bytes = static_cast<std::uint64_t>(a.rows) * a.groups * a.cols * 4;
  visit(OperandInfo{"out", Access::write, bytes}, a.out);
  visit(OperandInfo{"in", Access::read, bytes}, a.in);
  visit(OperandInfo{"weight", Access::read, static_cast<std::uint64_t>(a.cols) * 4}, a.weight);
}
Status check(const RmsNormArgs& a);
device::Cost cost(const RmsNormArgs& a);

}  // namespace plumb::kernels
