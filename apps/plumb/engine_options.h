// Options that every verb with an engine shares.
#pragma once

#include <string>

#include "plumb/plumb.h"

namespace CLI {
class App;
}

namespace plumb::app {

// MODEL, --threads, --ctx, --loop, --isa, --act, --kv, --attention, --checked and --diag.
void add_engine_options(CLI::App& command, std::string& model, EngineOptions& options);

// What was asked about sampling; what was not asked comes from the model (sampling_for).
struct SamplingOptions {
  bool greedy = false;
  float temperature = -1;  // below 0: not given
  float top_p = -1;
  float min_p = -1;
  std::int32_t top_k = -1;
  std::uint64_t seed = 0;
};

// --greedy, --temp, --top-p, --top-k, --min-p and --seed.
void add_sampling_options(CLI::App& command, SamplingOptions& options);

// Greedy when asked for. With any of temp, top-p, top-k, min-p given: sampling with those, temperature 1 unless given. With
// none: what generation_config.json beside the model recommends (do_sample, temperature, top_p, top_k, min_p), and greedy
// where there is no such file. Errors: those of reading that file.
Result<Sampling> sampling_for(const SamplingOptions& options, const Engine& engine);

// "greedy", or "temperature 0.8, top_p 0.95, seed 7".
std::string describe(const Sampling& sampling);

}  // namespace plumb::app
