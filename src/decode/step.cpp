#include "decode/step.h"

#include "base/check.h"

namespace plumb::decode {

void StepPlan::clear() {
  batch.clear();
  shares.clear();
  table_writes.clear();
  zero_pages.clear();
  state_starts.clear();
  state_saves.clear();
  state_slots.clear();
  rules = {};
  rules_later = false;
  want_logits = false;
}

void StepTicket::supply_rules(DrawRules rules) {
  PLUMB_CHECK(plan_.rules_later);
  plan_.rules = std::move(rules);
}

}  // namespace plumb::decode
