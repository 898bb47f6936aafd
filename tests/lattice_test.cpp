// The equality lattice on small models: grouped-query attention with windows and experts, and a hybrid with recurrent layers.
#include <gtest/gtest.h>

#include "serve/conformance/lattice.h"
#include "subprocess.h"

namespace plumb::conformance {
namespace {

std::vector<ArmResult> lattice_of(const test::ScratchFolder& scratch, const char* preset) {
  const std::string path = scratch.path() + "/" + preset;
  const auto made = test::run_plumb({"synth", "--preset", preset, "--hf", path});
  EXPECT_EQ(made.status, 0) << made.err;
  auto results = run_lattice(path, {.prompt = 60, .answer = 20, .scratch_file = scratch.file("session")}, {}, {});
  EXPECT_TRUE(results.ok()) << results.error().to_string();
  return results.ok() ? *std::move(results) : std::vector<ArmResult>{};
}

void expect_promises(const std::vector<ArmResult>& results) {
  EXPECT_GE(results.size(), 20U);
  for (const ArmResult& r : results) {
    EXPECT_TRUE(r.ok) << r.axis << ", " << r.name << ": " << r.verdict << ", " << r.equal << " of " << r.positions << " positions, " << r.witness
                      << (r.first ? ", first difference: " + r.first->to_string() : "") << ", KL " << r.kl_mean << " and " << r.kl_max;
    if (r.promised && r.verdict != "does not apply") {
      EXPECT_GT(r.positions, 0) << r.axis;
    }
  }
}

TEST(Lattice, GroupedQueriesWindowsAndExperts) {
  const test::ScratchFolder scratch;
  expect_promises(lattice_of(scratch, "tiny"));
}

TEST(Lattice, Hybrid) {
  const test::ScratchFolder scratch;
  expect_promises(lattice_of(scratch, "hybrid-tiny"));
}

// Rounded activations differ, and the first output that does is the first product of rounded rows.
TEST(Lattice, NamesWhereTwoRunsPart) {
  const test::ScratchFolder scratch;
  for (const ArmResult& r : lattice_of(scratch, "tiny")) {
    if (r.axis != "activations") continue;
    ASSERT_TRUE(r.first.has_value()) << r.verdict;
    EXPECT_EQ(r.first->position, 0);
    EXPECT_EQ(r.first->layer, 0);
    EXPECT_NE(r.first->where.find("moe_glu"), std::string::npos) << r.first->where;
    EXPECT_LT(r.equal, r.positions);
    return;
  }
  FAIL() << "no such arm";
}

}  // namespace
}  // namespace plumb::conformance
