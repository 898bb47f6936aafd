#include "checkpoints.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "subprocess.h"

namespace plumb::test {

nlohmann::json run_json(std::vector<std::string> arguments, int status) {
  arguments.insert(arguments.begin() + 1, {"--json", "-q"});
  const Finished done = run_plumb(arguments);
  EXPECT_EQ(done.status, status) << done.out.substr(0, 2000) << done.err;
  return nlohmann::json::parse(done.out, nullptr, false);
}

format::Checkpoint open_checkpoint(const std::string& path) {
  auto checkpoint = format::Checkpoint::open(path);
  if (!checkpoint.ok()) throw std::runtime_error(checkpoint.error().to_string());
  return std::move(checkpoint).value();
}

}  // namespace plumb::test
