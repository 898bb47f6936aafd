#include "kernels/api/moe.h"

#include <algorithm>

#include "kernels/api/arg_check.h"

namespace plumb::kernels {
namespace {

std::uint64_t pairs(std::int32_t rows, std::int32_t top_k) { return static_cast<std::uint64_t>(rows) * top_k; }

// Distinct experts that `rows` rows can choose at most.
std::uint64_t experts_read(const WeightView& w, std::uint64_t pairs) {
  return std::min<std::uint64_t>(static_cast<std::uint64_t>(w.experts), pairs);
}

}  // namespace

Status check(const MoeGroupArgs& a) {
  return ArgCheck(MoeGroupArgs::kName)
      .present("offsets", a.offsets)
      .present("order", a.order)
      .present("experts", a.experts)
      .that(a.expert_count > 0 && a.expert_count <= kMaxExperts, "expert_count", a.expert_count, "be in 1..kMaxExperts")
      .positive("top_k", a.top_k)
      .rows(a.rows)
      .done();
}

Status check(const MoeGluArgs& a) {
  return ArgCheck(MoeGluArgs::kName)
      .present("out", a.out)
      .present("offsets", a.offsets)
      .present("order", a.order)
      .weight("gate", a.gate, true)
      .activations(a.in, a.in_q8, a.gate.format)
      .weight("up", a.up, true)
      .that(a.up.format == a.gate.format, "up.format", static_cast<int>(a.up.format), "be the gate's")
      .that(a.up.rows == a.gate.rows, "up.rows", a.up.rows, "equal gate.rows")
      .that(a.up.cols == a.gate.cols, "up.cols", a.up.cols, "equal gate.cols")
      .that(a.up.experts == a.gate.experts, "up.experts", a.up.experts, "equal gate.experts")
      .that(static_cast<bool>(a.gate_bias) == static_cast<bool>(a.up_bias), "up_bias", a.up_bias ? 1 : 0,
            "be given with gate_bias and not without")
      .that(!a.gate_bias || a.bias_stride > 0, "bias_stride", a.bias_stride, "be positive")
      .that(!a.gate_bias || a.gate.experts == 1 || a.bias_expert_stride > 0, "bias_expert_stride", a.bias_expert_stride,
            "be positive")
      .positive("top_k", a.top_k)
      .rows(a.rows)
      .done();
}

Status check(const MoeDownArgs& a) {
  return ArgCheck(MoeDownArgs::kName)
      .present("out", a.out)
      .present("offsets", a.offsets)
      .present("order", a.order)
      .weight("down", a.down, true)
      .activations(a.in, a.in_q8, a.down.format)
      .positive("top_k", a.top_k)
      .rows(a.rows)
      .done();
}

Status check(const MoeCombineArgs& a) {
  return ArgCheck(MoeCombineArgs::kName)
      .present("x", a.x)
      .present("in", a.in)
      .present("weights", a.weights)
      .positive("cols", a.cols)
      .positive("top_k", a.top_k)
      .rows(a.rows)
      .done();
}

device::Cost cost(const MoeGroupArgs& a) {
  const std::uint64_t n = pairs(a.rows, a.top_k);
  return {.bytes_read = n * 4, .bytes_written = (n + a.expert_count + 1) * 4, .flops = 0};
}

device::Cost cost(const MoeGluArgs& a) {
  const std::uint64_t n = pairs(a.rows, a.top_k);
  const auto ffn = static_cast<std::uint64_t>(a.gate.rows);
  const auto hidden = static_cast<std::uint64_t>(a.gate.cols);
  device::Cost cost;
  cost.bytes_read = static_cast<std::uint64_t>(a.rows) * (a.in_q8 ? q8_row_bytes(a.gate.cols) : hidden * 4) + (n + a.gate.experts + 1) * 4 +
                    experts_read(a.gate, n) * ffn * (2 * weight_row_bytes(a.gate) + (a.gate_bias ? 8 : 0));
  cost.bytes_written = n * ffn * 4;
  cost.flops = n * ffn * (4 * hidden + 8);  // two products and about 8 for the activation
  return cost;
}

device::Cost cost(const MoeDownArgs& a) {
  const std::uint64_t n = pairs(a.rows, a.top_k);
  const auto hidden = static_cast<std::uint64_t>(a.down.rows);
  const auto ffn = static_cast<std::uint64_t>(a.down.cols);
  device::Cost cost;
  cost.bytes_read = n * (a.in_q8 ? q8_row_bytes(a.down.cols) : ffn * 4) + (n + a.down.experts + 1) * 4 +
                    experts_read(a.down, n) * hidden * (weight_row_bytes(a.down) + (a.bias ? 4 : 0));
  cost.bytes_written = n * hidden * 4;
  cost.flops = n * hidden * 2 * ffn;
  return cost;
}

device::Cost cost(const MoeCombineArgs& a) {
  const auto elements = static_cast<std::uint64_t>(a.rows) * a.cols;
  return {.bytes_read = elements * 4 * (a.top_k + 1) + pairs(a.rows, a.top_k) * 4,
          .bytes_written = elements * 4,
          .flops = elements * 2 * a.top_k};
}

}  // namespace plumb::kernels
