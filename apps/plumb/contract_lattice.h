// plumb contract --lattice.
#pragma once

#include <string>

#include "base/status.h"
#include "console.h"
#include "exit_code.h"

namespace plumb::app {

// Runs the equality lattice and prints it as a table, as JSON, or as docs/EQUALITY.md. ExitCode::verdict when a promise is broken.
Result<ExitCode> print_lattice(const std::string& model, bool markdown, Console& console);

}  // namespace plumb::app
