#include "kernels/bind.h"

#include <string>

#include "kernels/table.h"

namespace plumb::kernels {

namespace {

// Every operand of `phase` with the rows it now has.
Status validate_phase(const Program& program, Phase phase, std::size_t i) {
  Status status;
  phase.op->operands(phase.args.data(), [&](const OperandInfo& info, std::uint64_t& at, SlotId slot) {
    if (!status.ok()) return;
    const std::string where = "phase " + std::to_string(i) + " (" + phase.op->name + ", layer " +
                              std::to_string(phase.layer) + "), operand " + info.name;
    if (slot >= program.slots.size()) {
      status = fail(ErrorCode::internal, "operand has no slot", "program", where);
      return;
    }
    const Slot& s = program.slots[slot];
    if (at > s.bytes || info.bytes > s.bytes - at) {
      status = fail(ErrorCode::internal,
                    "operand needs bytes [" + std::to_string(at) + ", " + std::to_string(at + info.bytes) + ") of slot " +
                        s.name + ", which has " + std::to_string(s.bytes),
                    "program", where);
    }
  });
  return status;
}

}  // namespace

Status validate(const Program& program) {
  for (std::size_t i = 0; i < program.load.size(); ++i) PLUMB_TRY(validate_phase(program, program.load[i], i));
  for (std::size_t i = 0; i < program.phases.size(); ++i) {
    Phase phase = program.phases[i];
    phase.op->set_rows(phase.args.data(), phase.over == RowCount::rows ? program.max_rows : program.max_logit_rows);
    PLUMB_TRY(validate_phase(program, phase, i));
  }
  return {};
}

void bind(std::span<Phase> phases, std::span<std::byte* const> bases) {
  for (Phase& phase : phases) {
    phase.op->operands(phase.args.data(), [&](const OperandInfo&, std::uint64_t& at, SlotId slot) {
      at += reinterpret_cast<std::uint64_t>(bases[slot]);
    });
  }
}

}  // namespace plumb::kernels
