// A verb's JSON document, and a checkpoint opened as the engine opens it: for tests of what writes checkpoints.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "format/checkpoint.h"

namespace plumb::test {

// `arguments`: a verb and its own. The program must end with `status`.
nlohmann::json run_json(std::vector<std::string> arguments, int status = 0);

// Throws what the checkpoint's error says.
format::Checkpoint open_checkpoint(const std::string& path);

}  // namespace plumb::test
