// edit_logits: changes single logits before a token is drawn: penalties and biases.
//
// Row r's edits are edits[offsets[r]] .. edits[offsets[r + 1] - 1], applied in order:
//   l = l > 0 ? l / scale : l * scale;   l = l + add
// The first line is the repetition penalty of Keskar et al., arXiv 1909.05858 (scale 1: none); frequency and presence penalties
// and biases are sums the host has worked out in `add`. The digest of a row is taken before its edits.
//
// An edit of a token outside the vocabulary is counted and skipped; so is a row whose offsets do not lie in [0, edits_limit].
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/status.h"
#include "device/launch.h"
#include "kernels/api/ref.h"

namespace plumb::kernels {

struct LogitEdit {
  std::int32_t token = 0;
  float scale = 1;  // > 0
  float add = 0;    // finite
};

struct EditLogitsArgs {
  static constexpr const char* kName = "edit_logits";
  Ref<float> logits;                 // [rows][vocab]
  Ref<const LogitEdit> edits;        // [edits_limit]
  Ref<const std::int32_t> offsets;   // [rows + 1], ascending
  std::int32_t edits_limit = 0;
  std::int32_t vocab = 0;
  std::int32_t rows = 0;
};

template <class A, class V>
  requires std::is_same_v<std::remove_const_t<A>, EditLogitsArgs>
void visit_operands(A& a, V&& visit) {
  const auto rows = static_cast<std::uint64_t>(a.rows);
  visit(OperandInfo{"logits", Access::read_write, rows * a.vocab * 4}, a.logits);
  visit(OperandInfo{"edits", Access::read, static_cast<std::uint64_t>(a.edits_limit) * sizeof(LogitEdit)}, a.edits);
  visit(OperandInfo{"offsets", Access::read, (rows + 1) * 4}, a.offsets);
}
Status check(const EditLogitsArgs& a);
device::Cost cost(const EditLogitsArgs& a);

}  // namespace plumb::kernels
