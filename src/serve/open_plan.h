// OpenPlan: what opening a model with some options means, before any memory is taken: sizes, layout, program.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "decode/executor_options.h"
#include "decode/loops.h"
#include "kv/layout.h"
#include "model/decoder.h"
#include "model/spec.h"
#include "model/weights.h"
#include "plumb/plumb.h"

namespace plumb {

struct OpenPlan {
  decode::LoopChoice loop;
  decode::ExecutorOptions executor;
  std::int32_t context = 0;
  std::int32_t state_slots = 0;  // recurrent models: those of running requests and of the prefix tree
  kv::KvLayout layout;
  model::LoweredModel lowered;   // borrows the checkpoint's mapping
};

// Positions that a request may reach: as asked, or the model's own as far as that is sensible.
std::int32_t context_of(const EngineOptions& options, const model::DecoderSpec& spec);

// What is wrong with the options whatever the model is. Errors: invalid_argument naming the option.
Status check_options(const EngineOptions& options);

// `pool_pages`: pages of the full-attention pools; 0: what the options say.
// Errors: those of check_options(), kv::plan_kv() and model::lower().
Result<OpenPlan> plan_open(const EngineOptions& options, const model::DecoderSpec& spec, model::DecoderWeights weights, std::int32_t pool_pages = 0);

}  // namespace plumb
