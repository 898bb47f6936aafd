// How an executor is opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/api/program.h"
#include "kernels/geometry/attention_plan.h"
#include "kernels/isa.h"

namespace plumb::decode {

// A copy of some activation after some phase, for witnesses (which experts were chosen) and for finding the first place
// where two runs differ. Off in normal runs.
struct Tap {
  std::size_t phase = 0;       // copied after this phase of the program
  kernels::SlotId slot = kernels::kNoSlot;
  std::uint64_t row_bytes = 0;  // bytes per batch row (or logit row) of the slot
  std::uint64_t offset = 0;     // of the first row in the slot
  kernels::RowCount over = kernels::RowCount::rows;  // which rows those are
};

struct ExecutorOptions {
  kernels::Isa isa = kernels::Isa::portable;
  std::int32_t depth = 1;     // steps in flight at once: results of this many are kept for the host
  std::int32_t state_slots = 0;  // recurrent-state slots the model was lowered for
  bool keep_logits = false;   // reserve room for logits in the ring
  bool diag = false;          // one_by_one submissions
  kernels::AttentionRequest attention;  // which attention kernels may run
  std::vector<Tap> taps;
};

}  // namespace plumb::decode
