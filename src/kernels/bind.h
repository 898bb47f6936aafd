// Binding: a Program's symbolic references become addresses, and every extent is checked against its slot, once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "kernels/api/program.h"

namespace plumb::kernels {

// Checks every operand of every phase, load phases included, at full row counts: the slot exists and offset + extent lies inside it.
// Errors: internal, naming phase, op, operand and slot (a lowering bug, found at load and not by a fault in decode).
Status validate(const Program& program);

// Adds each slot's base address to the references of `phases`. REQUIRES: bases.size() == program.slots.size(); validate()
// holds; the phases are a copy of program.phases.
void bind(std::span<Phase> phases, std::span<std::byte* const> bases);

}  // namespace plumb::kernels
