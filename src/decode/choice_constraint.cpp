#include "decode/choice_constraint.h"

#include <algorithm>

#include "base/check.h"

namespace plumb::decode {

using text::Choices;

ChoiceConstraint::ChoiceConstraint(const CellContext* context, std::shared_ptr<const Choices> choices, std::vector<std::int32_t> ends)
    : choices_(std::move(choices)), ends_(std::move(ends)), state_(context, Choices::kStart) {}

void ChoiceConstraint::accept(std::int32_t token) {
  const Choices::State at = state_.get();
  const Choices::State to = choices_->step(at, token);
  if (to != Choices::kNowhere) {
    state_.set(to);
  } else {
    PLUMB_CHECK(choices_->complete(at) && std::find(ends_.begin(), ends_.end(), token) != ends_.end());
  }
}

void ChoiceConstraint::shape(DrawRules& rules) const {
  const Choices::State at = state_.get();
  if (choices_->complete(at) && choices_->steps(at).empty()) return;  // the request has ended: a step chained behind it draws for nobody
  TokenMask mask(static_cast<std::size_t>(kernels::mask_words(rules.vocab())));
  for (const Choices::Step& step : choices_->steps(at)) allow(mask, step.token);
  if (choices_->complete(at)) {
    for (const std::int32_t token : ends_) allow(mask, token);
  }
  rules.allow_only(mask);
}

bool ChoiceConstraint::complete() const {
  const Choices::State at = state_.get();
  return choices_->complete(at) && choices_->steps(at).empty();
}

}  // namespace plumb::decode
