// pack: a stack of stored weight matrices to the packed layout of the q8 path. Runs once, at load; see weight.h for the layouts.
//
// Nothing is rounded: the codes of the stored blocks are moved, never changed. One exception, stated in weight.h: an MXFP4
// scale below 2^-125 becomes 0.
#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>

#include "base/status.h"
#include "device/launch.h"
#include "kernels/api/weight.h"

namespace plumb::kernels {

// The packed format of a stored one, or nullopt where the q8 path has none.
std::optional<WeightFormat> packed_format(WeightFormat stored);

// Shape, format and strides of what packing `stored` gives; the references are empty. REQUIRES: packed_format(stored.format).
WeightView packed_shape(const WeightView& stored);

struct PackArgs {
  static constexpr const char* kName = "pack";
  Ref<std::byte> data;     // [rows] matrices, packed_shape(from).expert_stride bytes each
  Ref<std::byte> scales;   // [rows] matrices, packed_shape(from).scale_expert_stride bytes each
  WeightView from;         // stored, without factors; its own `experts` does not count
  std::int32_t rows = 0;   // matrices of the stack
};

template <class A, class V>
  requires std::is_same_v<std::remove_const_t<A>, PackArgs>
void visit_operands(A& a, V&& visit) {
  const WeightView to = packed_shape(a.from);
  const auto rows = static_cast<std::uint64_t>(a.rows);
  visit(OperandInfo{"data", Access::write, rows * static_cast<std::uint64_t>(to.expert_stride)}, a.data);
  visit(OperandInfo{"scales", Access::write, rows * static_cast<std::uint64_t>(to.scale_expert_stride)}, a.scales);
  WeightView stack = a.from;
  stack.experts = a.rows;
  visit(OperandInfo{"from", Access::read, weight_data_extent(stack)}, a.from.data);
  if (a.from.scales) visit(OperandInfo{"from_scales", Access::read, weight_scales_extent(stack)}, a.from.scales);
}
Status check(const PackArgs& a);
device::Cost cost(const PackArgs& a);

}  // namespace plumb::kernels
