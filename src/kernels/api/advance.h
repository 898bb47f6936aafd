// advance: lengths[sequences[r]] = positions[r] + 1, the device's own count of the positions each sequence has passed.
//
// It runs last in a forward, so it counts only what a forward really reached. The host compares it with its own counters when
// the step settles (clause C2). Rows of one sequence ascend, so the last one decides. A row whose sequence is -1 is skipped; a
// sequence outside [0, sequence_count) is counted as a fault and skipped.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/status.h"
#include "device/launch.h"
#include "kernels/api/ref.h"

namespace plumb::kernels {

struct AdvanceArgs {
  static constexpr const char* kName = "advance";
  Ref<std::int32_t> lengths;           // [sequence_count]
  Ref<const std::int32_t> positions;   // [rows]
  Ref<const std::int32_t> sequences;   // [rows]; -1: skip the row
  std::int32_t sequence_count = 0;
  std::int32_t rows = 0;
};

template <class A, class V>
  requires std::is_same_v<std::remove_const_t<A>, AdvanceArgs>
void visit_operands(A& a, V&& visit) {
  const auto rows = static_cast<std::uint64_t>(a.rows);
  visit(OperandInfo{"lengths", Access::read_write, static_cast<std::uint64_t>(a.sequence_count) * 4}, a.lengths);
  visit(OperandInfo{"positions", Access::read, rows * 4}, a.positions);
  visit(OperandInfo{"sequences", Access::read, rows * 4}, a.sequences);
}
Status check(const AdvanceArgs& a);
device::Cost cost(const AdvanceArgs& a);

}  // namespace plumb::kernels
