// gather: out[i] = in[indices[i]], whole rows. Takes the rows that want logits out of the residual stream.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/status.h"
#include "device/launch.h"
#include "kernels/api/ref.h"

namespace plumb::kernels {

struct GatherArgs {
  static constexpr const char* kName = "gather";
  Ref<float> out;                     // [rows][cols]
  Ref<const float> in;                // [in_rows][cols]
  Ref<const std::int32_t> indices;    // [rows], each in [0, in_rows); clamped and counted
  std::int32_t in_rows = 0;
  std::int32_t cols = 0;
  std::int32_t rows = 0;
};

template <class A, class V>
  requires std::is_same_v<std::remove_const_t<A>, GatherArgs>
void visit_operands(A& a, V&& visit) {
  visit(OperandInfo{"out", Access::write, static_cast<std::uint64_t>(a.rows) * a.cols * 4}, a.out);
  visit(OperandInfo{"in", Access::read, static_cast<std::uint64_t>(a.in_rows) * a.cols * 4}, a.in);
  visit(OperandInfo{"indices", Access::read, static_cast<std::uint64_t>(a.rows) * 4}, a.indices);
}
Status check(const GatherArgs& a);
device::Cost cost(const GatherArgs& a);

}  // namespace plumb::kernels
