// Every exit in every phase, in both loops, on a hybrid model (attention with and without windows, and recurrent layers).
#include <gtest/gtest.h>

#include <cstdio>

#include "serve/conformance/exit_matrix.h"
#include "subprocess.h"

namespace plumb::conformance {
namespace {

TEST(ExitMatrix, EveryExitInEveryPhaseLeavesNothingBehind) {
  const test::ScratchFolder scratch;
  const auto made = test::run_plumb({"synth", "--preset", "hybrid-tiny", "--hf", scratch.path() + "/model"});
  ASSERT_EQ(made.status, 0) << made.err;
  const auto cells = run_exit_matrix(scratch.path() + "/model", {"standard", "chained:4"}, {}, {});
  ASSERT_TRUE(cells.ok()) << cells.error().to_string();
  constexpr std::size_t kAll = 2 * static_cast<std::size_t>(Exit::count_) * static_cast<std::size_t>(Phase::count_);
  ASSERT_EQ(cells->size(), kAll);
  std::size_t clean = 0;
  std::size_t in_flight = 0;
  for (const ExitCell& c : *cells) {
    EXPECT_TRUE(c.ok()) << c.loop << ": " << to_string(c.exit) << ", " << to_string(c.phase) << ": " << c.note;
    EXPECT_EQ(c.verdict == "impossible", !c.note.empty()) << "a cell that was not struck says why, and no other has anything to say";
    clean += c.verdict == "clean" ? 1 : 0;
    // In a chain, the exit took effect with steps under way.
    if (c.verdict == "clean" && c.phase == Phase::chain_flight) {
      ++in_flight;
      EXPECT_GT(c.in_flight, 0) << to_string(c.exit);
    }
  }
  EXPECT_EQ(in_flight, 12U);
  std::printf("[ figures  ] %zu of %zu cells struck, the others cannot be\n", clean, cells->size());
}

}  // namespace
}  // namespace plumb::conformance
