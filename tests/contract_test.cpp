// The step contract on really opened engines: both loops, a hybrid model (attention with and without windows, and recurrent layers),
// seeded workloads with aborts and faults, and a sample of mutants. All of the mutants: plumb contract --mutants.
#include <gtest/gtest.h>

#include <set>

#include "decode/contract/contract.h"
#include "serve/conformance/suite.h"
#include "subprocess.h"

namespace plumb::conformance {
namespace {

const std::string kStory = PLUMB_SOURCE_DIR "/models/story";

TEST(Contract, DocumentIsWhatTheTablesSay) {
  const auto text = test::read_file(PLUMB_SOURCE_DIR "/docs/CONTRACT.md");
  EXPECT_EQ(text, decode::contract_markdown()) << "plumb contract --markdown > docs/CONTRACT.md";
}

TEST(Contract, EveryCellServesClausesAndEveryClauseIsKnown) {
  std::set<std::string> served;
  for (std::size_t c = 0; c < kCellCount; ++c) {
    const decode::CellRule& rule = decode::cell_rules()[c];
    EXPECT_EQ(static_cast<std::size_t>(rule.cell), c) << "rules stand in the order of cells";
    EXPECT_FALSE(rule.clauses.empty()) << to_string(rule.cell);
    std::string_view rest = rule.clauses;
    while (!rest.empty()) {
      const auto space = rest.find(' ');
      const std::string id(rest.substr(0, space));
      EXPECT_GE(decode::clause_index(id), 0) << id;
      served.insert(id);
      rest = space == std::string_view::npos ? std::string_view{} : rest.substr(space + 1);
    }
  }
  EXPECT_EQ(decode::clauses().size(), kClauseCount);
}

class Hybrid : public testing::Test {
 protected:
  void SetUp() override {
    const auto made = test::run_plumb({"synth", "--preset", "hybrid-tiny", "--hf", scratch_.path() + "/model"});
    ASSERT_EQ(made.status, 0) << made.err;
  }
  WorldOptions options(const std::string& loop) const {
    WorldOptions o;
    o.model = scratch_.path() + "/model";
    o.loop = loop;
    return o;
  }
  test::ScratchFolder scratch_;
};

// 50 seeds in each loop. Rules and counters are judged in the longer run of tests/full.
TEST_F(Hybrid, SeededWorkloadsKeepEveryClause) {
  for (const char* loop : {"standard", "chained:4"}) {
    const auto report = run_suite(options(loop), 1, 50, false, {}, {});
    ASSERT_TRUE(report.ok()) << report.error().to_string();
    for (const Violation& v : report->first) ADD_FAILURE() << loop << " breaks " << v.clause << ": " << v.what;
    EXPECT_EQ(report->workloads, 50U);
    EXPECT_GT(report->happened.hits, 0U);
    EXPECT_GT(report->happened.mixed, 0U);
    EXPECT_GT(report->happened.state_hits, 0U);
    EXPECT_EQ(report->happened.late_stops > 0, std::string(loop) != "standard");
  }
}

// Seeds that once failed. Both: a chained plan was given up for want of a page, and the slot it had taken for a recurrent state with it.
TEST_F(Hybrid, SeedsThatOnceFailed) {
  const WorldOptions o = options("chained:4");
  const auto reference = Reference::open(o);
  ASSERT_TRUE(reference.ok()) << reference.error().to_string();
  for (const std::uint64_t seed : {485U, 997U}) {
    const auto violations = run_one(o, make_workload(seed, o, **reference), **reference);
    ASSERT_TRUE(violations.ok());
    for (const Violation& v : *violations) ADD_FAILURE() << "seed " << seed << " breaks " << v.clause << ": " << v.what;
  }
}

TEST_F(Hybrid, ASampleOfMutantsIsCaught) {
  const auto report = run_mutants(options("standard"), {"chained:4"}, {.seed = 1, .workloads = 16, .sample = 16, .delays = false}, {}, {});
  ASSERT_TRUE(report.ok()) << report.error().to_string();
  EXPECT_GE(report->total(), 9U);
  std::size_t historic = 0;
  for (const MutantResult& r : report->results) {
    historic += r.kind == "historic" ? 1 : 0;
    EXPECT_EQ(r.verdict, "killed") << r.name << ": " << r.how;
  }
  EXPECT_EQ(historic, 4U) << "the four defects that made the contract are among them by name";
}

TEST(Workload, IsTheSameForTheSameSeed) {
  WorldOptions options;
  options.model = kStory;
  const auto reference = Reference::open(options);
  ASSERT_TRUE(reference.ok()) << reference.error().to_string();
  EXPECT_EQ(describe(make_workload(7, options, **reference)), describe(make_workload(7, options, **reference)));
  EXPECT_NE(describe(make_workload(7, options, **reference)), describe(make_workload(8, options, **reference)));
  const auto violations = run_one(options, make_workload(7, options, **reference), **reference);
  ASSERT_TRUE(violations.ok());
  EXPECT_TRUE(violations->empty());
}

}  // namespace
}  // namespace plumb::conformance
