// route: picks top_k experts of each row and their weights.
//
// The top_k largest logits (ties: the lower expert index wins), in falling order; weights = softmax over those top_k logits
// only. gpt-oss: "top-k, then softmax".
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/status.h"
#include "device/launch.h"
#include "kernels/api/ref.h"

namespace plumb::kernels {

inline constexpr std::int32_t kMaxTopK = 32;  // insertion into a register-sized list; no released model routes to more than 8

struct RouteArgs {
  static constexpr const char* kName = "route";
  Ref<std::int32_t> experts;    // [rows][top_k]
  Ref<float> weights;           // [rows][top_k]
  Ref<const float> logits;      // [rows][expert_count]
  std::int32_t expert_count = 0;
  std::int32_t top_k = 0;       // 1..min(expert_count, kMaxTopK)
  std::int32_t rows = 0;
};

template <class A, class V>
  requires std::is_same_v<std::remove_const_t<A>, RouteArgs>
void visit_operands(A& a, V&& visit) {
  const auto rows = static_cast<std::uint64_t>(a.rows);
  visit(OperandInfo{"experts", Access::write, rows * a.top_k * 4}, a.experts);
  visit(OperandInfo{"weights", Access::write, rows * a.top_k * 4}, a.weights);
  visit(OperandInfo{"logits", Access::read, rows * a.expert_count * 4}, a.logits);
}
Status check(const RouteArgs& a);
device::Cost cost(const RouteArgs& a);

}  // namespace plumb::kernels
