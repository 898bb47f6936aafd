// The deployment path with activations as signed bytes over the whole oracle and the held-out text: the figures of docs/QUALITY.md.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "subprocess.h"

namespace plumb::test {
namespace {

using nlohmann::json;

TEST(QualityFull, Q8ActivationsStayWithinTheirBudget) {
  const std::string root = PLUMB_SOURCE_DIR;
  const Finished finished =
      run_plumb({"verify", root + "/models/story", "--oracle", root + "/tests/oracle/story-oracle.safetensors", "--heldout",
                 root + "/models/story/heldout.u16", "--path", "deploy", "--act", "q8", "--json", "-q"});
  EXPECT_EQ(finished.status, 0) << finished.out << finished.err;
  const json quality = json::parse(finished.out, nullptr, false).value("quality", json::object());
  std::printf("[ figures  ] kl_mean %.3g kl_p99 %.3g flips %.4f held-out %+.5f nats\n", quality.value("kl_mean", -1.0),
              quality.value("kl_p99", -1.0), quality.value("top1_flips", -1.0), quality.value("heldout_nats_more", -1.0));
  EXPECT_GT(quality.value("kl_mean", 0.0), 1e-6) << "not the q8 path";
}

}  // namespace
}  // namespace plumb::test
