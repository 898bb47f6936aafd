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

// Shape, format and strides of what packing `stored` gives; the references are empty. `interleaved`: how many matrices of this shape share
// the memory, taking turns group by group (gate and up, which a product reads together: one stream of weights and not two).
// REQUIRES: packed_format(stored.format), interleaved >= 1.
WeightView packed_shape(const WeightView& stored, std::int32_t interleaved = 1);

struct PackArgs {
  static constexpr const char* kName = "pack";
  Ref<std::byte> data;            // [rows] matrices as packed_shape(from, interleaved) has them; another's groups of rows lie between
  Ref<std::byte> scales;          // likewise
  WeightView from;                // stored, without factors; its own `experts` does not count
  std::int32_t interleaved = 1;
  std::int32_t rows = 0;          // matrices of the stack
};

template <class A, class V>
  requires std::is_same_v<std::remove_const_t<A>, PackArgs>
void visit_operands(A& a, V&& visit) {
  WeightView to = packed_shape(a.from, a.interleaved);
  to.experts = a.rows;
  visit(OperandInfo{"data", Access::write, weight_data_extent(to)}, a.data);
  visit(OperandInfo{"scales", Access::write, weight_scales_extent(to)}, a.scales);
  WeightView stack = a.from;
  stack.experts = a.rows;
  visit(OperandInfo{"from", Access::read, weight_data_extent(stack)}, a.from.data);
  if (a.from.scales) visit(OperandInfo{"from_scales", Access::read, weight_scales_extent(stack)}, a.from.scales);
}
Status check(const PackArgs& a);
device::Cost cost(const PackArgs& a);

}  // namespace plumb::kernels
