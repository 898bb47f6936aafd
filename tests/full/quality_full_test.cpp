// The deployment path over the whole oracle and the held-out text, for each representation: the figures of docs/QUALITY.md.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "subprocess.h"

namespace plumb::test {
namespace {

using nlohmann::json;

struct Forms {
  const char* act;
  const char* kv;
  bool heldout;  // over 131,072 tokens too; half a minute each, so for the widest and the narrowest
};

class QualityFull : public ::testing::TestWithParam<Forms> {};

TEST_P(QualityFull, StaysWithinItsBudget) {
  const std::string root = PLUMB_SOURCE_DIR;
  std::vector<std::string> arguments = {"verify", root + "/models/story", "--oracle", root + "/tests/oracle/story-oracle.safetensors", "--path",
                                        "deploy", "--act", GetParam().act, "--kv", GetParam().kv, "--json", "-q"};
  if (GetParam().heldout) arguments.insert(arguments.end(), {"--heldout", root + "/models/story/heldout.u16"});
  const Finished finished = run_plumb(arguments);
  EXPECT_EQ(finished.status, 0) << finished.out << finished.err;
  json quality = json::parse(finished.out, nullptr, false).value("quality", json::object());
  const auto figure = [&](const char* name) { return quality[name].is_number() ? quality[name].get<double>() : -1.0; };  // null: not measured
  std::printf("[ figures  ] act %s kv %s kl_mean %.3g kl_p99 %.3g flips %.4f held-out %+.5f nats\n", GetParam().act, GetParam().kv,
              figure("kl_mean"), figure("kl_p99"), figure("top1_flips"), figure("heldout_nats_more"));
  EXPECT_GT(figure("kl_mean"), 1e-10) << "not another path";
}

INSTANTIATE_TEST_SUITE_P(Forms, QualityFull,
                         ::testing::Values(Forms{"q8", "f32", true}, Forms{"f32", "f16", false}, Forms{"f32", "bf16", false}, Forms{"f32", "q8", false},
                                           Forms{"q8", "q8", true}),
                         [](const auto& p) { return std::string("act_") + p.param.act + "_kv_" + p.param.kv; });

}  // namespace
}  // namespace plumb::test
