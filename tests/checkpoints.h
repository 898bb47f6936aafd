// A verb's JSON document, and a checkpoint opened as the engine opens it: for tests of what writes checkpoints.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "format/checkpoint.h"
#include "subprocess.h"

namespace plumb::test {

// `arguments`: a verb and its own. The program must end with `status`.
inline nlohmann::json run_json(std::vector<std::string> arguments, int status = 0) {
  arguments.insert(arguments.begin() + 1, {"--json", "-q"});
  const Finished done = run_plumb(arguments);
  EXPECT_EQ(done.status, status) << done.out.substr(0, 2000) << done.err;
  return nlohmann::json::parse(done.out, nullptr, false);
}

inline format::Checkpoint open_checkpoint(const std::string& path) {
  auto checkpoint = format::Checkpoint::open(path);
  if (!checkpoint.ok()) throw std::runtime_error(checkpoint.error().to_string());
  return std::move(checkpoint).value();
}

}  // namespace plumb::test
