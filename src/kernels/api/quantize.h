// quantize: rows of f32 to rows of signed bytes in blocks of 32 (q8_rows.h).
//
// For each block: largest = max |x|, scale = largest / 127, code = round(x * (127 / largest)) to nearest even; every operation
// in f32, so that all kernels give the same bits. A block whose largest is below 2^-100 is all zeros. A block with an element
// that is not finite gets a NaN scale and zero codes: what is computed from it is NaN, and the sampler counts it.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/status.h"
#include "device/launch.h"
#include "kernels/api/q8_rows.h"
#include "kernels/api/ref.h"

namespace plumb::kernels {

inline constexpr float kQ8Smallest = 0x1p-100F;

struct QuantizeArgs {
  static constexpr const char* kName = "quantize";
  Ref<std::byte> out;        // [rows][groups] q8 rows of cols
  Ref<const float> in;       // [rows][groups][cols]
  std::int32_t groups = 1;   // vectors of one batch row
  std::int32_t cols = 0;     // a multiple of 32
  std::int32_t rows = 0;
};

template <class A, class V>
  requires std::is_same_v<std::remove_const_t<A>, QuantizeArgs>
void visit_operands(A& a, V&& visit) {
  const std::uint64_t vectors = static_cast<std::uint64_t>(a.rows) * a.groups;
  visit(OperandInfo{"out", Access::write, vectors * q8_row_bytes(a.cols)}, a.out);
  visit(OperandInfo{"in", Access::read, vectors * a.cols * 4}, a.in);
}
Status check(const QuantizeArgs& a);
device::Cost cost(const QuantizeArgs& a);

}  // namespace plumb::kernels
