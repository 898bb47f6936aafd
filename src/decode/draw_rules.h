// DrawRules: what the host has to say about the draws of one step, row by row: changes of single logits, and sets of tokens that
// alone may be drawn. Plain data, uploaded with the sample half of the step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/api/edit_logits.h"
#include "kernels/api/mask_logits.h"

namespace plumb::decode {

// A set of tokens: bit t % 32 of word t / 32. [kernels::mask_words(vocab)]
using TokenMask = std::vector<std::uint32_t>;

inline void allow(TokenMask& mask, std::int32_t token) { mask[static_cast<std::size_t>(token / 32)] |= 1U << (token % 32); }

class DrawRules {
 public:
  // Of a step in which every row is drawn as the model says.
  DrawRules() = default;
  // `vocab`: tokens of the model.
  explicit DrawRules(std::int32_t vocab) : vocab_(vocab) {}

  // The next logit row; what follows is about it.
  void next_row() {
    offsets_.push_back(static_cast<std::int32_t>(edits_.size()));
    mask_of_.push_back(-1);
  }
  // REQUIRES for both: a row.
  void edit(const kernels::LogitEdit& edit) {
    edits_.push_back(edit);
    ++offsets_.back();
  }
  // Tokens outside of `mask` may not be drawn. Several masks of one row: what all allow.
  void allow_only(const TokenMask& mask);

  std::int32_t vocab() const { return vocab_; }
  std::span<const kernels::LogitEdit> edits() const { return edits_; }
  // [rows + 1], or empty when there are no rows.
  std::span<const std::int32_t> edit_offsets() const { return mask_of_.empty() ? std::span<const std::int32_t>() : offsets_; }
  std::span<const std::uint32_t> masks() const { return masks_; }
  // [rows]: the mask of each, or -1.
  std::span<const std::int32_t> mask_of() const { return mask_of_; }

  // For checkers: what is said about one row.
  std::span<const kernels::LogitEdit> edits_of(std::int32_t row) const;
  std::span<const std::uint32_t> mask_at(std::int32_t row) const;  // empty: none

 private:
  std::int32_t vocab_ = 0;
  std::vector<kernels::LogitEdit> edits_;
  std::vector<std::int32_t> offsets_{0};
  std::vector<std::uint32_t> masks_;
  std::vector<std::int32_t> mask_of_;
};

}  // namespace plumb::decode
