// plumb verify --against-exact: a representation against the exact path of the same file, over a text.
#pragma once

#include "console.h"
#include "exit_code.h"
#include "kl_report.h"

namespace plumb::app {

// Judged by the budget of `o.act` and `o.kv` (docs/QUALITY.md). Errors: those of measure_kl.
Result<ExitCode> verify_against_exact(const std::string& model, const KlOptions& o, Console& console);

}  // namespace plumb::app
