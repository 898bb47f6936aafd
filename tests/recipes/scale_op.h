// The example of docs/RECIPES.md for an op and its kernel: out[r][i] = factor * in[r][i].
//
// In the engine the struct and its functions stand in src/kernels/api/<op>.h, the reference in src/kernels/ref/<op>.cpp and the
// kernel in src/kernels/cpu; here they are one file so that the recipe can be read at once.
#pragma once

#include "kernels/table.h"

namespace recipes {

using namespace plumb::kernels;  // NOLINT: a recipe reads like the code it stands for
using plumb::Status;

struct ScaleArgs {
  static constexpr const char* kName = "scale";
  Ref<float> out;       // [rows][cols]
  Ref<const float> in;  // [rows][cols]
  float factor = 1;
  std::int32_t cols = 0;
  std::int32_t rows = 0;
};

// Every reference, with the bytes the op may touch from it on.
template <class A, class V>
  requires std::is_same_v<std::remove_const_t<A>, ScaleArgs>
void visit_operands(A& a, V&& visit) {
  const std::uint64_t bytes = static_cast<std::uint64_t>(a.rows) * a.cols * 4;
  visit(OperandInfo{"out", Access::write, bytes}, a.out);
  visit(OperandInfo{"in", Access::read, bytes}, a.in);
}

// What must hold before the op is lowered; names the field.
inline Status check(const ScaleArgs& a) {
  if (a.cols > 0) return {};
  return plumb::Error{plumb::ErrorCode::shape_mismatch, "must be positive", ScaleArgs::kName, "cols", std::to_string(a.cols)};
}

inline plumb::device::Cost cost(const ScaleArgs& a) {
  const std::uint64_t n = static_cast<std::uint64_t>(a.rows) * a.cols;
  return {.bytes_read = n * 4, .bytes_written = n * 4, .flops = n};
}

// The meaning, in double precision.
inline void reference(const ScaleArgs& a) {
  for (std::int64_t i = 0; i < std::int64_t{a.rows} * a.cols; ++i) a.out[i] = static_cast<float>(static_cast<double>(a.factor) * a.in[i]);
}

// The kernel: splits its outputs among the workers, never a sum.
inline void f32_scale(const ScaleArgs& a, plumb::device::Worker& w) {
  const auto [lo, hi] = w.share(std::int64_t{a.rows} * a.cols, 16);
  for (std::int64_t i = lo; i < hi; ++i) a.out[i] = a.factor * a.in[i];
}

// The line of the op table and the line of the kernel table.
inline constexpr OpDesc kScale = describe_op<ScaleArgs>();
inline const plumb::device::Kernel kF32Scale{"f32_scale", plumb::device::Backend::cpu,
                                             reinterpret_cast<const void*>(&plumb::device::cpu_entry<ScaleArgs, f32_scale>)};

}  // namespace recipes
