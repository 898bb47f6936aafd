// The equality lattice: one request, run in many ways on really opened engines, compared with the same request alone, cold, in the
// standard loop. What may not change a bit is compared bit for bit; what is another class of arithmetic has a bound in predictive
// units. Where two runs part, both are run again with digests of every phase's output, and the first that differs is named.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "serve/conformance/step_trace.h"
#include "serve/conformance/suite.h"

namespace plumb::conformance {

// One way to run the request.
struct Arm {
  std::string axis;            // "batch size"
  std::string name;            // "8 requests"
  EngineOptions options;
  std::int32_t before = 0;     // requests submitted before it, and after it, in the same batch
  std::int32_t after = 0;
  std::int32_t pool_pages = 0; // memory pressure
  enum class Start : std::uint8_t { cold, repeat, branch, session, teacher } start = Start::cold;
  bool own_class = false;      // another arithmetic: not promised to be bit-equal
  bool exact = false;          // of the two, this one is the exact one: KL is taken from it
  double kl_bound = 0;         // own class: mean over the prompt's positions, nats
  double kl_max_bound = 0;     // own class: largest
  // A branch with no room for windows that no sequence stands on.
  bool trims_windows() const { return start == Start::branch && options.cache_window_pages == 0; }
};

struct ArmResult {
  std::string axis, name;
  bool promised = true;        // bit-equal
  std::string verdict;         // "bit-equal", "token-equal", "differs", "does not apply"
  std::string witness;         // what shows that the run was what its name says; or why it does not apply
  std::int32_t positions = 0;  // whose logits were compared
  std::int32_t equal = 0;      // of those, bit for bit
  std::int32_t tokens = 0;     // drawn by both until the first that differs
  std::optional<Divergence> first;
  double kl_mean = 0, kl_max = 0, kl_bound = 0, kl_max_bound = 0;  // own class
  bool ok = false;             // the promise holds
};

// Where in the text of the request everything is compared.
struct LatticeOptions {
  std::int32_t prompt = 150;   // tokens; longer than a window of 128
  std::int32_t answer = 24;
  std::string act = EngineOptions{}.act;  // how activations reach quantised weights, in all arms but the one that tells the two apart
  std::string scratch_file;    // where the session arm writes; removed afterwards
};

// All arms that this model has. Errors: of opening the model.
Result<std::vector<ArmResult>> run_lattice(const std::string& model, const LatticeOptions& options, const ProgressFn& progress, const StopFn& stop);

// docs/EQUALITY.md, and one row of its table.
std::string lattice_row(const ArmResult& result);
std::string lattice_markdown(const std::string& model, const std::vector<ArmResult>& results);

}  // namespace plumb::conformance
