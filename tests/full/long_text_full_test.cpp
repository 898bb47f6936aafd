// A text long enough that its keys are shared out by stretches: the kernels that short texts never take, through the program.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/isa.h"
#include "story.h"
#include "subprocess.h"

namespace plumb {
namespace {

using nlohmann::json;

constexpr int kPrompt = 8300;  // behind the span at which the planner's rows change (src/kernels/geometry/attention_plan.cpp)

json run(const std::vector<std::string>& more) {
  std::string ids;
  for (int i = 0; i < kPrompt; ++i) ids += (i > 0 ? "," : "") + std::to_string((i * 37 + 5) % 4000);
  std::vector<std::string> arguments = {"run", test::kStoryModel, "--ids", ids, "-n", "4", "--greedy", "--ignore-eos", "--witness", "--json", "-q"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const test::Finished finished = test::run_plumb(arguments);
  EXPECT_EQ(finished.status, 0) << finished.err;
  return json::parse(finished.out);
}

std::uint64_t positions_by(const json& report, const std::string& variant) {
  std::uint64_t found = 0;
  for (const json& row : report["route"]) {
    if (row["kernel"].get<std::string>().ends_with("_attention_" + variant)) found += row["positions_x_layers"].get<std::uint64_t>();
  }
  return found;
}

std::uint64_t refused(const json& report) {
  std::uint64_t found = 0;
  for (const json& row : report["route"]) found += row["refused"].get<std::uint64_t>();
  return found;
}

TEST(LongTextFull, HasOneResultWhateverKernelReadsIt) {
  // Where no row was measured for the machine's sets, automatic runs are refused and serial, and say so.
  const bool measured = kernels::isa_includes(kernels::best_isa(), kernels::Isa::avx2);
  const json plain = run({"--attention", "off", "--threads", "2"});
  EXPECT_EQ(positions_by(plain, "seqpar_long"), 0U);
  for (const std::vector<std::string>& way : {std::vector<std::string>{"--threads", "1"}, {"--threads", "3"}, {"--threads", "2", "--attention", "5"}}) {
    const json other = run(way);
    EXPECT_EQ(other["fingerprint"], plain["fingerprint"]) << way[1];
    // Three layers of full attention decode three tokens behind the prompt; a number asks for slices, which have room here.
    const bool automatic = way.size() == 2;
    const std::string wanted = !automatic ? "seqpar" : measured ? "seqpar_long" : "serial";
    EXPECT_GE(positions_by(other, wanted), 3U * 3U) << wanted;
    EXPECT_EQ(refused(other) > 0, automatic && !measured);
  }
}

}  // namespace
}  // namespace plumb
