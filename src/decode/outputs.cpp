#include "decode/outputs.h"

#include <map>

#include "kernels/table.h"

namespace plumb::decode {
namespace {

struct Written {
  const char* operand;
  std::uint64_t at;
  kernels::SlotId slot;
  std::uint64_t bytes;
};

std::vector<Written> written(const kernels::Phase& phase, std::int32_t rows) {
  kernels::Phase p = phase;
  p.op->set_rows(p.args.data(), rows);
  std::vector<Written> all;
  p.op->operands(p.args.data(), [&](const kernels::OperandInfo& info, std::uint64_t& at, kernels::SlotId slot) {
    if (info.access != kernels::Access::read) all.push_back({info.name, at, slot, info.bytes});
  });
  return all;
}

}  // namespace

std::string PhaseOutput::name() const {
  return (layer < 0 ? std::string() : "layer " + std::to_string(layer) + " ") + op + " " + operand + " -> " + tensor +
         (occurrence > 0 ? " #" + std::to_string(occurrence + 1) : "");
}

std::vector<PhaseOutput> phase_outputs(const kernels::Program& program) {
  std::vector<PhaseOutput> all;
  std::map<std::string, std::int32_t> seen;
  for (std::size_t i = 0; i < program.phases.size(); ++i) {
    const kernels::Phase& phase = program.phases[i];
    if (phase.op == &kernels::op<kernels::MoeGroupArgs>()) continue;  // sorted by expert over the whole batch
    const std::vector<Written> one = written(phase, 1);
    const std::vector<Written> two = written(phase, 2);
    for (std::size_t o = 0; o < one.size(); ++o) {
      if (one[o].slot == kernels::kNoSlot || two[o].bytes != 2 * one[o].bytes) continue;
      const kernels::Slot& slot = program.slots[one[o].slot];
      if (slot.kind != kernels::SlotKind::activation && slot.kind != kernels::SlotKind::output) continue;
      PhaseOutput output{{.phase = i, .slot = one[o].slot, .row_bytes = one[o].bytes, .offset = one[o].at, .over = phase.over},
                         phase.layer, phase.op->name, slot.name, one[o].operand, 0};
      output.occurrence = seen[output.name()]++;
      all.push_back(std::move(output));
    }
  }
  return all;
}

}  // namespace plumb::decode
