// glu: out[r][i] = act(gate[r][i], up[r][i]), the gated activation of a dense feed-forward block.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/status.h"
#include "device/launch.h"
#include "kernels/api/ref.h"

namespace plumb::kernels {

enum class GluKind : std::uint8_t {
  silu,         // gate * sigmoid(gate) * up.                                       Shazeer, arXiv 2002.05202
  clamped_silu, // g = min(gate, limit), u = clamp(up, -limit, limit); g * sigmoid(alpha g) * (u + 1).   gpt-oss
};

struct GluSpec {
  GluKind kind = GluKind::silu;
  float alpha = 1.702F;  // clamped_silu only
  float limit = 7.0F;    // clamped_silu only
};

struct GluArgs {
  static constexpr const char* kName = "glu";
  Ref<float> out;          // [rows][cols]; may be gate
  Ref<const float> gate;   // [rows][cols]
  Ref<const float> up;     // [rows][cols]
  GluSpec spec;
  std::int32_t cols = 0;
  std::int32_t rows = 0;
};

template <class A, class V>
  requires std::is_same_v<std::remove_const_t<A>, GluArgs>
void visit_operands(A& a, V&& visit) {
  const std::uint64_t bytes = static_cast<std::uint64_t>(a.rows) * a.cols * 4;
  visit(OperandInfo{"out", Access::write, bytes}, a.out);
  visit(OperandInfo{"gate", Access::read, bytes}, a.gate);
  visit(OperandInfo{"up", Access::read, bytes}, a.up);
}
Status check(const GluArgs& a);
device::Cost cost(const GluArgs& a);

}  // namespace plumb::kernels
