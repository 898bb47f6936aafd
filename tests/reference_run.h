// A whole model run by the double-precision references of its ops: the executable meaning of a lowered Program.
//
// It lowers the same checkpoint as the engine does, gives every slot plain host memory, and calls each phase's reference in
// order for one sequence computed in one step. Slow, simple, and independent of kernels, queues and executors.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "format/checkpoint.h"
#include "kernels/bind.h"
#include "kernels/table.h"
#include "kv/layout.h"
#include "model/arch/table.h"
#include "model/decoder.h"

namespace plumb::test {

// Logits of every position of `tokens`: [tokens][vocab].
inline Result<std::vector<float>> reference_logits(const std::string& model, const std::vector<std::int32_t>& tokens) {
  const auto rows = static_cast<std::int32_t>(tokens.size());
  PLUMB_ASSIGN(const format::Checkpoint checkpoint, format::Checkpoint::open(model));
  PLUMB_ASSIGN(const model::DecoderSpec spec, model::read_spec(checkpoint));
  PLUMB_ASSIGN(model::DecoderWeights weights, model::read_weights(checkpoint, spec));
  PLUMB_ASSIGN(const kv::KvLayout layout, kv::plan_kv(spec, {.context = rows, .sequences = 1, .chunk_rows = rows}));
  PLUMB_ASSIGN(model::LoweredModel lowered,
               model::lower(spec, std::move(weights), layout.geometry(), {.max_rows = rows, .max_logit_rows = rows, .sequences = 1, .state_slots = 1}));
  kernels::Program& program = lowered.program;
  PLUMB_TRY(kernels::validate(program));

  std::vector<std::vector<std::byte>> memory(program.slots.size());
  std::vector<std::byte*> bases(program.slots.size());
  for (std::size_t s = 0; s < program.slots.size(); ++s) {
    if (program.slots[s].kind == kernels::SlotKind::weight) continue;
    memory[s].resize(program.slots[s].bytes);
    bases[s] = memory[s].data();
  }
  for (const model::WeightSource& w : lowered.weights) bases[w.slot] = const_cast<std::byte*>(w.bytes.data());

  const auto fill = [&](const std::string& name, auto value) {
    for (std::size_t s = 0; s < program.slots.size(); ++s) {
      if (program.slots[s].name != name) continue;
      auto* cells = reinterpret_cast<std::int32_t*>(bases[s]);
      for (std::size_t i = 0; i < program.slots[s].bytes / 4; ++i) cells[i] = value(static_cast<std::int32_t>(i));
    }
  };
  fill(kernels::kSlotTokens, [&](std::int32_t i) { return tokens[static_cast<std::size_t>(i)]; });
  fill(kernels::kSlotSources, [](std::int32_t) { return -1; });
  fill(kernels::kSlotPositions, [](std::int32_t i) { return i; });
  fill(kernels::kSlotLogitIndex, [](std::int32_t i) { return i; });
  fill(kernels::kSlotRelayOf, [](std::int32_t) { return -1; });
  fill(kernels::kSlotMaskOf, [](std::int32_t) { return -1; });
  if (model::has_recurrent(spec)) fill(kernels::kSlotStateSlots, [](std::int32_t) { return 0; });  // memory is zero: a fresh state
  for (std::size_t c = 0; c < layout.classes.size(); ++c) {
    fill("kv.c" + std::to_string(c) + ".table", [](std::int32_t i) { return i; });  // table entry i is page i
  }

  std::vector<float> logits;
  kernels::bind(program.phases, bases);
  for (const kernels::Phase& phase : program.phases) phase.op->reference(phase.args.data());
  for (std::size_t s = 0; s < program.slots.size(); ++s) {
    if (program.slots[s].name != kernels::kSlotLogits) continue;
    logits.resize(program.slots[s].bytes / 4);
    std::memcpy(logits.data(), bases[s], program.slots[s].bytes);
  }
  return logits;
}

}  // namespace plumb::test
