// Running one arm of the equality lattice.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "serve/conformance/lattice.h"

namespace plumb::conformance {

EngineOptions lattice_base(const LatticeOptions& options);
std::vector<Arm> lattice_arms(const LatticeOptions& options);

// What came of the request in one arm.
struct ArmRun {
  std::unique_ptr<Engine::Impl> engine;             // keeps what the trace refers to
  std::unique_ptr<StepTrace> trace;                 // when asked for
  std::vector<std::int32_t> text;                   // prompt and answer
  std::map<std::int32_t, std::uint64_t> digests;    // of the logits at a position
  std::map<std::int32_t, std::vector<float>> logits;  // at the prompt's positions, where asked for
  Usage usage;
  std::string witness;     // that it was what the arm says
  bool reached = true;     // the witness is there
  std::string refused;     // why the arm does not apply to this model; empty otherwise
};

// `truth`: the base run, whose answer the arms that need one continue; null for the base run itself.
Result<ArmRun> run_arm(const std::string& model, const LatticeOptions& options, const Arm& arm, const ArmRun* truth, bool trace);

}  // namespace plumb::conformance
