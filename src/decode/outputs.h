// Which memory each phase of a program writes row by row: where two runs can be compared position by position.
#pragma once

#include <string>
#include <vector>

#include "decode/executor.h"

namespace plumb::decode {

struct PhaseOutput {
  Tap tap;
  std::int16_t layer = -1;    // -1: of no layer
  std::string op;             // "matmul"
  std::string tensor;         // the slot: "qkv", "x"
  std::string operand;        // of the op: "out"
  std::int32_t occurrence = 0;  // among those that agree in everything above
  // Names the same output in two programs, also where one has phases that the other has not.
  std::string name() const;
};

// Outputs whose size follows the rows, in the order in which a step writes them. Pages, lengths and what is sorted over the whole
// batch are not among them.
std::vector<PhaseOutput> phase_outputs(const kernels::Program& program);

}  // namespace plumb::decode
