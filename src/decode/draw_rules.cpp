#include "decode/draw_rules.h"

#include "base/check.h"

namespace plumb::decode {

void DrawRules::allow_only(const TokenMask& mask) {
  const auto words = static_cast<std::size_t>(kernels::mask_words(vocab_));
  PLUMB_CHECK(mask.size() == words && !mask_of_.empty());
  if (mask_of_.back() < 0) {
    mask_of_.back() = static_cast<std::int32_t>(masks_.size() / words);
    masks_.insert(masks_.end(), mask.begin(), mask.end());
    return;
  }
  const auto first = static_cast<std::size_t>(mask_of_.back()) * words;
  for (std::size_t i = 0; i < words; ++i) masks_[first + i] &= mask[i];
}

std::span<const kernels::LogitEdit> DrawRules::edits_of(std::int32_t row) const {
  if (mask_of_.empty()) return {};
  const auto r = static_cast<std::size_t>(row);
  return edits().subspan(static_cast<std::size_t>(offsets_[r]), static_cast<std::size_t>(offsets_[r + 1] - offsets_[r]));
}

std::span<const std::uint32_t> DrawRules::mask_at(std::int32_t row) const {
  const auto words = static_cast<std::size_t>(kernels::mask_words(vocab_));
  if (mask_of_.empty() || mask_of_[static_cast<std::size_t>(row)] < 0) return {};
  return masks().subspan(static_cast<std::size_t>(mask_of_[static_cast<std::size_t>(row)]) * words, words);
}

}  // namespace plumb::decode
