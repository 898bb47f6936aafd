// digest: out[r] = a 64-bit digest of the bits of row r, so that two runs can be compared logit for logit without keeping
// the logits, also when later steps have overwritten them.
//
// The row is taken as 64-bit words, two elements each, the first in the low half; an odd last element is a word of its own.
// kDigestLanes running hashes over words i, i + kDigestLanes, ..., each from 0 by digest_step; then these folded in order, from 0, by the
// same step. As many as hide the time of a multiplication, since one worker hashes a row. Not cryptographic.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/status.h"
#include "device/launch.h"
#include "kernels/api/ref.h"

namespace plumb::kernels {

inline constexpr int kDigestLanes = 16;
inline constexpr std::uint64_t kDigestFactor = 0x9E3779B97F4A7C15U;
constexpr std::uint64_t digest_step(std::uint64_t h, std::uint64_t bits) {
  h = (h ^ bits) * kDigestFactor;
  return h ^ (h >> 32);
}

struct DigestArgs {
  static constexpr const char* kName = "digest";
  Ref<std::uint64_t> out;   // [rows]
  Ref<const float> in;      // [rows][cols]
  std::int32_t cols = 0;
  std::int32_t rows = 0;
};

template <class A, class V>
  requires std::is_same_v<std::remove_const_t<A>, DigestArgs>
void visit_operands(A& a, V&& visit) {
  visit(OperandInfo{"out", Access::write, static_cast<std::uint64_t>(a.rows) * 8}, a.out);
  visit(OperandInfo{"in", Access::read, static_cast<std::uint64_t>(a.rows) * a.cols * 4}, a.in);
}
Status check(const DigestArgs& a);
device::Cost cost(const DigestArgs& a);

}  // namespace plumb::kernels
