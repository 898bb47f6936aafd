// embed: out[r] = row token(r) of the embedding table.
//
// The token of a row is given by the host (source[r] < 0: tokens[r]) or is still on the device: the relay cell source[r],
// where an earlier step's sampler left it. A token outside the vocabulary is clamped and counted.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/status.h"
#include "device/launch.h"
#include "kernels/api/weight.h"

namespace plumb::kernels {

struct EmbedArgs {
  static constexpr const char* kName = "embed";
  Ref<float> out;                      // [rows][hidden]
  Ref<const std::int32_t> tokens;      // [rows]
  Ref<const std::int32_t> sources;     // [rows]; -1: from tokens
  Ref<const std::int32_t> relay;       // [relay_cells]; absent when there are none
  WeightView table;                    // [vocab][hidden]
  std::int32_t relay_cells = 0;
  std::int32_t rows = 0;
};

template <class A, class V>
  requires std::is_same_v<std::remove_const_t<A>, EmbedArgs>
void visit_operands(A& a, V&& visit) {
  const auto rows = static_cast<std::uint64_t>(a.rows);
  visit(OperandInfo{"out", Access::write, rows * a.table.cols * 4}, a.out);
  visit(OperandInfo{"tokens", Access::read, rows * 4}, a.tokens);
  visit(OperandInfo{"sources", Access::read, rows * 4}, a.sources);
  if (a.relay) visit(OperandInfo{"relay", Access::read, static_cast<std::uint64_t>(a.relay_cells) * 4}, a.relay);
  visit_weight(a.table, "table", "table_scales", "table_factors", visit);
}
Status check(const EmbedArgs& a);
device::Cost cost(const EmbedArgs& a);

}  // namespace plumb::kernels
