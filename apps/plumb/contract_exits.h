// plumb contract --exits.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "console.h"
#include "exit_code.h"

namespace plumb::app {

// Runs the exit matrix and prints it as a table, or as JSON. ExitCode::verdict when a cell failed.
Result<ExitCode> print_exit_matrix(const std::string& model, const std::vector<std::string>& loops, Console& console);

}  // namespace plumb::app
