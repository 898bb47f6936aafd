// ChoiceConstraint: an answer must be exactly one of a list of texts (Request::choices).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/cell.h"
#include "decode/host_sampling.h"
#include "text/choices.h"

namespace plumb::decode {

class ChoiceConstraint final : public HostSamplingState {
 public:
  // `ends`: tokens that end a text; allowed where the text so far is a choice. `context` may be null and outlives it.
  ChoiceConstraint(const CellContext* context, std::shared_ptr<const text::Choices> choices, std::vector<std::int32_t> ends);

  bool follows_tokens() const override { return true; }
  // REQUIRES: a token that shape() allowed.
  void accept(std::int32_t token) override;
  void shape(DrawRules& rules) const override;
  std::int64_t most_edits(std::int32_t /*unseen*/) const override { return 0; }
  bool complete() const override;

 private:
  const std::shared_ptr<const text::Choices> choices_;
  const std::vector<std::int32_t> ends_;
  Cell<CellId::request_constraint, text::Choices::State> state_;
};

}  // namespace plumb::decode
