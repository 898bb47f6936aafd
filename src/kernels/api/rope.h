// rope_table and rope: rotary position embedding (Su et al., arXiv 2104.09864), with YaRN's scaling (Peng et al., arXiv
// 2309.00071) already inside the frequencies and the concentration.
//
// rope_table fills, once a step for all layers of one rope, the pair (cos, sin) of angle position[r] * frequency[i], times
// `concentration`. The angle is the float32 product of the float32 position and the float32 frequency, as in the reference
// implementation of the architecture; at position 6,000 another rounding moves it by 1e-4 rad.
//
// rope rotates x in place: for pair i of a head, (a, b) -> (a cos - b sin, b cos + a sin), where the pair is (x[i], x[i +
// rotary/2]) for `halves` (NeoX) and (x[2i], x[2i + 1]) for `adjacent` (the original paper and llama2.c).
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/status.h"
#include "device/launch.h"
#include "kernels/api/ref.h"

namespace plumb::kernels {

enum class RopePairing : std::uint8_t { halves, adjacent };

struct RopeTableArgs {
  static constexpr const char* kName = "rope_table";
  Ref<float> out;                      // [rows][pairs][2]: cos, sin
  Ref<const std::int32_t> positions;   // [rows]
  Ref<const float> frequencies;        // [pairs] radians per position
  float concentration = 1;
  std::int32_t pairs = 0;
  std::int32_t rows = 0;
};

struct RopeArgs {
  static constexpr const char* kName = "rope";
  Ref<float> x;                        // [rows][heads][head_dim]
  Ref<const float> table;              // [rows][pairs][2]
  RopePairing pairing = RopePairing::halves;
  std::int32_t heads = 0;
  std::int32_t head_dim = 0;
  std::int32_t pairs = 0;              // rotated pairs; 2 * pairs <= head_dim, the rest of a head passes through
  std::int32_t rows = 0;
};

template <class A, class V>
  requires std::is_same_v<std::remove_const_t<A>, RopeTableArgs>
void visit_operands(A& a, V&& visit) {
  const auto rows = static_cast<std::uint64_t>(a.rows);
  visit(OperandInfo{"out", Access::write, rows * a.pairs * 8}, a.out);
  visit(OperandInfo{"positions", Access::read, rows * 4}, a.positions);
  visit(OperandInfo{"frequencies", Access::read, static_cast<std::uint64_t>(a.pairs) * 4}, a.frequencies);
}
template <class A, class V>
  requires std::is_same_v<std::remove_const_t<A>, RopeArgs>
void visit_operands(A& a, V&& visit) {
  const auto rows = static_cast<std::uint64_t>(a.rows);
  visit(OperandInfo{"x", Access::read_write, rows * a.heads * a.head_dim * 4}, a.x);
  visit(OperandInfo{"table", Access::read, rows * a.pairs * 8}, a.table);
}
Status check(const RopeTableArgs& a);
Status check(const RopeArgs& a);
device::Cost cost(const RopeTableArgs& a);
device::Cost cost(const RopeArgs& a);

}  // namespace plumb::kernels
