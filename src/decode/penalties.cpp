#include "decode/penalties.h"

namespace plumb::decode {

Penalties::Penalties(const CellContext* context, const Sampling& s, std::vector<LogitBias> biases)
    : counting_(counts(s)), repetition_(s.repetition_penalty), frequency_(s.frequency_penalty), presence_(s.presence_penalty),
      biases_(std::move(biases)), counts_(context) {}

void Penalties::accept(std::int32_t token) {
  if (counting_) counts_.update([token](auto& counts) { ++counts[token]; });
}

void Penalties::shape(DrawRules& rules) const {
  if (counting_) {
    for (const auto& [token, count] : counts_.get()) {
      rules.edit({token, repetition_, -(static_cast<float>(count) * frequency_ + presence_)});
    }
  }
  for (const LogitBias& b : biases_) rules.edit({b.token, 1, b.bias});
}

std::int64_t Penalties::most_edits(std::int32_t unseen) const {
  const auto counted = counting_ ? static_cast<std::int64_t>(counts_.get().size()) + unseen : 0;
  return counted + static_cast<std::int64_t>(biases_.size());
}

}  // namespace plumb::decode
