// mask_logits: leaves single tokens of a row's vocabulary and takes away the rest: what a constraint allows next.
//
// Row r is held to mask m = mask_of[r]: bit t % 32 of masks[m][t / 32] says that token t may be drawn; the logit of every other
// token becomes kBannedLogit, which sample never draws. A row with mask_of[r] = -1 stays as it is. Bits beyond the vocabulary are
// not looked at. The mask comes after edits, so that no bias and no penalty can bring a token back.
//
// A mask_of outside [-1, mask_count) is counted, and the whole row is banned: a row that lost its mask draws nothing.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/status.h"
#include "device/launch.h"
#include "kernels/api/ref.h"

namespace plumb::kernels {

// The lowest float: it lies below every logit a model gives, and differs from what a broken one gives (infinities, NaN).
inline constexpr float kBannedLogit = -0x1.fffffep127F;

// Words of 32 bits of one mask.
constexpr std::int32_t mask_words(std::int32_t vocab) { return (vocab + 31) / 32; }

struct MaskLogitsArgs {
  static constexpr const char* kName = "mask_logits";
  Ref<float> logits;                 // [rows][vocab]
  Ref<const std::uint32_t> masks;    // [mask_count][mask_words(vocab)]
  Ref<const std::int32_t> mask_of;   // [rows]
  std::int32_t mask_count = 0;
  std::int32_t vocab = 0;
  std::int32_t rows = 0;
};

template <class A, class V>
  requires std::is_same_v<std::remove_const_t<A>, MaskLogitsArgs>
void visit_operands(A& a, V&& visit) {
  const auto rows = static_cast<std::uint64_t>(a.rows);
  visit(OperandInfo{"logits", Access::read_write, rows * a.vocab * 4}, a.logits);
  visit(OperandInfo{"masks", Access::read, static_cast<std::uint64_t>(a.mask_count) * mask_words(a.vocab) * 4}, a.masks);
  visit(OperandInfo{"mask_of", Access::read, rows * 4}, a.mask_of);
}
Status check(const MaskLogitsArgs& a);
device::Cost cost(const MaskLogitsArgs& a);

}  // namespace plumb::kernels
