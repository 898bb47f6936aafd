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
  edits.clear();
  edit_offsets.clear();
  edits_later = false;
  want_logits = false;
}

void StepTicket::supply_edits(std::vector<kernels::LogitEdit> edits, std::vector<std::int32_t> offsets) {
  PLUMB_CHECK(plan_.edits_later);
  plan_.edits = std::move(edits);
  plan_.edit_offsets = std::move(offsets);
}

}  // namespace plumb::decode
