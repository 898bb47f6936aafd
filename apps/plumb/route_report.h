// The route witness: which kernels ran, for how many positions x layers.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "decode/executor.h"

namespace plumb::app {

// All phases of a program that run one op of one class with one kernel.
struct RouteRow {
  std::string phase_class;
  std::string op;
  std::string kernel;
  std::uint64_t phases = 0;             // of the program: layers, for a class inside layers
  std::uint64_t steps = 0;              // of the phase that ran most often
  std::uint64_t positions_x_layers = 0; // rows summed over the phases
  // Attention: most tasks that a row's keys were cut in (0: a refusal, no row was measured for the geometry), and how many launches
  // were refused. 1 and 0 elsewhere.
  std::int32_t slices = 1;
  std::uint64_t refused = 0;
};

// In program order. Counts since the executor was opened; a row counts when its step was encoded.
std::vector<RouteRow> route_rows(const decode::Executor& executor);

std::string route_text(const std::vector<RouteRow>& rows);
nlohmann::ordered_json route_json(const std::vector<RouteRow>& rows);

}  // namespace plumb::app
