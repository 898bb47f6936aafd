// Requests for the exit matrix, chosen on the model at hand so that stops come where the phase wants them.
#pragma once

#include <cstdint>

#include "serve/conformance/exit_cell.h"

namespace plumb::conformance {

// The engine of a cell.
WorldOptions exit_world(const std::string& model, const std::string& loop);

// Whoever takes part in a cell of everything but memory pressure. Errors: not_found when no text of this model stops there.
Result<ExitCast> cast_for(Exit exit, Phase phase, const WorldOptions& options, Reference& reference);

// Memory pressure: engines and casts to try in this order until the exit strikes in the phase. How many pages a request holds at
// which step depends on the model's layers, so the right one is searched for. `attempt` from 0; false when there is none left.
bool cast_for_pressure(Exit exit, Phase phase, std::size_t attempt, WorldOptions& options, ExitCast& cast, Reference& reference);

}  // namespace plumb::conformance
