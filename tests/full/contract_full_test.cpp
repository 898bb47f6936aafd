// The whole contract on the bundled model with every rule and counter judged; and a soak.
#include <gtest/gtest.h>

#include <cstdio>

#include "base/counter_rng.h"
#include "serve/conformance/suite.h"

namespace plumb::conformance {
namespace {

const std::string kModel = PLUMB_SOURCE_DIR "/models/story";

TEST(ContractFull, BothLoopsKeepEveryClauseAndEveryRule) {
  std::vector<LoopReport> reports;
  for (const char* loop : {"standard", "chained:4"}) {
    WorldOptions options;
    options.model = kModel;
    options.loop = loop;
    auto report = run_suite(options, 1, 64, true, {}, {});
    ASSERT_TRUE(report.ok()) << report.error().to_string();
    for (const Violation& v : report->first) ADD_FAILURE() << loop << " breaks " << v.clause << ": " << v.what;
    for (const std::string& rule : report->rules_broken) ADD_FAILURE() << loop << ": " << rule;
    for (const std::string& name : report->empty) ADD_FAILURE() << loop << " never happened: " << name;
    reports.push_back(*std::move(report));
  }
  for (const std::string& rule : unused_rules(reports)) ADD_FAILURE() << rule;
}

// 20,000 requests, one in four meant to be aborted at a random moment, in a pool that is always too small: in the end every page, row and
// count is where it was.
TEST(ContractFull, ASoakEndsWithEveryPoolFull) {
  constexpr std::uint64_t kRequests = 20000;
  auto opened = Engine::Impl::open(kModel, {.engine = {.context = 256, .chunk_rows = 48, .max_requests = 16, .loop = "chained:4", .cache_window_pages = 16}, .pool_pages = 48});
  ASSERT_TRUE(opened.ok()) << opened.error().to_string();
  Engine::Impl& engine = **opened;
  const auto live = engine.queue().live();
  const Philox rng{99};
  std::vector<RequestId> alive;
  std::uint64_t ended = 0;
  std::uint64_t aborted = 0;
  std::uint64_t asked = 0;
  for (std::uint64_t turn = 0; ended < kRequests; ++turn) {
    while (asked < kRequests && alive.size() < 64) {
      const auto q = rng.block((std::uint64_t{1} << 40) + asked);
      Request request;
      const std::uint32_t family = q[0] % 7;  // texts that share beginnings
      for (std::uint32_t i = 0; i < 3 + q[1] % 40; ++i) request.prompt_ids.push_back(static_cast<std::int32_t>((family * 131 + i * 17) % 4096));
      request.max_tokens = static_cast<std::int32_t>(1 + q[2] % 4);
      request.ignore_eos = q[3] % 2 == 0;
      const auto id = engine.submit(request);
      ASSERT_TRUE(id.ok()) << id.error().to_string();
      alive.push_back(*id);
      ++asked;
    }
    for (const RequestId id : alive) {
      if (id % 4 == 0 && rng.block((std::uint64_t{1} << 50) + turn * 64 + id % 64)[0] % 6 == 0) engine.core().cancel(id);
    }
    engine.core().scheduler().turn();
    for (std::size_t i = 0; i < alive.size();) {
      Event event;
      bool end = false;
      while (engine.core().try_next(alive[i], event)) end = event.kind == EventKind::finished;
      if (end && event.finish == Finish::cancelled) ++aborted;
      if (!end) {
        ++i;
        continue;
      }
      ++ended;
      alive[i] = alive.back();
      alive.pop_back();
    }
  }
  engine.core().order(Order::flush);
  EXPECT_TRUE(engine.core().scheduler().peek_requests().empty());
  EXPECT_EQ(engine.slots().free_rows(), engine.slots().rows());
  for (std::size_t c = 0; c < engine.layout().classes.size(); ++c) EXPECT_EQ(engine.pool(c).free_pages(), engine.pool(c).pages()) << "class " << c;
  EXPECT_EQ(engine.tree()->nodes(), 0);
  EXPECT_EQ(engine.queue().live(), live);
  EXPECT_GT(aborted, kRequests / 8);
  std::printf("[ figures  ] %llu requests, %llu aborted\n", static_cast<unsigned long long>(ended), static_cast<unsigned long long>(aborted));
}

}  // namespace
}  // namespace plumb::conformance
