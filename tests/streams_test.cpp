// Many requests at once through the public interface: streams, orders, limits, sessions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <thread>

#include "base/hash.h"
#include "plumb/plumb.h"
#include "serve/engine_impl.h"
#include "subprocess.h"
#include "story.h"

namespace plumb {
namespace {

const std::string& kModel = test::kStoryModel;
using test::Answer;
using test::drain;
using test::heldout;

Engine open(EngineOptions options = {}) {
  options.context = options.context == 0 ? 1024 : options.context;
  options.threads = 2;
  auto engine = Engine::open(kModel, options);
  EXPECT_TRUE(engine.ok()) << engine.error().to_string();
  return std::move(engine).value();
}

Request ask(std::size_t from, std::size_t n, std::int32_t tokens) {
  Request r;
  r.prompt_ids = heldout(from, n);
  r.max_tokens = tokens;
  r.ignore_eos = true;
  return r;
}

class Loops : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Streams, Loops, testing::Values("standard", "chained:1", "chained:4"), [](const auto& tested) {
  std::string name = tested.param;
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
});

// Twelve requests on four threads, six at a time, are answered as each would be alone: the same bits.
TEST_P(Loops, ThreadsWithStreamsGetWhatTheyWouldGetAlone) {
  Engine alone = open({.prefix_cache = false});
  Engine shared = open({.max_requests = 6, .loop = GetParam()});
  std::vector<Answer> answers(12);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = t; i < answers.size(); i += 4) {
        auto stream = shared.submit(ask(100 * i, 5 + 30 * (i % 4), 12));
        ASSERT_TRUE(stream.ok());
        answers[i] = drain(*stream);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < answers.size(); ++i) {
    auto stream = alone.submit(ask(100 * i, 5 + 30 * (i % 4), 12));
    ASSERT_TRUE(stream.ok());
    const Answer expected = drain(*stream);
    EXPECT_EQ(answers[i].ids, expected.ids) << i;
    EXPECT_EQ(answers[i].digests, expected.digests) << i;
    EXPECT_EQ(answers[i].end.finish, Finish::length);
  }
}

// 220 tokens, then a follow-up that shares the text: every committed token is a hit, page rounding aside (trace T16).
TEST_P(Loops, AFollowUpFindsEveryCommittedToken) {
  Engine engine = open({.loop = GetParam()});
  auto first = engine.submit(ask(1000, 37, 220));
  ASSERT_TRUE(first.ok());
  const Answer a = drain(*first);
  ASSERT_EQ(a.ids.size(), 220U);
  Request second = ask(1000, 37, 4);
  second.prompt_ids.insert(second.prompt_ids.end(), a.ids.begin(), a.ids.end());
  const auto more = heldout(7000, 9);
  second.prompt_ids.insert(second.prompt_ids.end(), more.begin(), more.end());
  auto stream = engine.submit(second);
  ASSERT_TRUE(stream.ok());
  const Usage usage = drain(*stream).end.usage;
  EXPECT_EQ(usage.cached_tokens, (37 + 219) / 16 * 16);
  EXPECT_EQ(usage.matched_tokens, usage.cached_tokens) << "the hit there could be is the hit there was";
}

TEST_P(Loops, CancelledAndAbandonedRequestsLeaveNothing) {
  Engine engine = open({.max_requests = 2, .loop = GetParam()});
  auto kept = engine.submit(ask(0, 20, 30));
  auto cancelled = engine.submit(ask(500, 90, 200));
  auto waiting = engine.submit(ask(900, 10, 10));
  ASSERT_TRUE(kept.ok() && cancelled.ok() && waiting.ok());
  Event e;
  ASSERT_TRUE(cancelled->next(e));
  cancelled->cancel();
  { const Stream gone = *std::move(waiting); }  // its client goes away before it was admitted
  EXPECT_EQ(drain(*cancelled).end.finish, Finish::cancelled);
  EXPECT_EQ(drain(*kept).end.finish, Finish::length);
  engine.flush();
  const Engine::Impl& impl = engine.impl();
  EXPECT_EQ(impl.slots().free_rows(), 2);
  for (std::size_t c = 0; c < impl.layout().classes.size(); ++c) EXPECT_EQ(impl.pool(c).free_pages(), impl.pool(c).pages());
  EXPECT_TRUE(impl.core().scheduler().peek_requests().empty());
  EXPECT_EQ(impl.queue().live().in_flight, 0U);
}

TEST(Streams, PriorityIsAdmittedFirst) {
  Engine engine = open({.max_requests = 1});
  Request low = ask(0, 10, 3);
  Request high = ask(50, 10, 3);
  high.priority = 5;
  auto a = engine.submit(low);
  auto b = engine.submit(high);
  ASSERT_TRUE(a.ok() && b.ok());
  Event e;
  while (b->next(e) && e.kind != EventKind::finished) {
  }
  EXPECT_FALSE(a->try_next(e)) << "the one that came first waits";
  EXPECT_EQ(drain(*a).end.finish, Finish::length);
}

TEST(Streams, APastDeadlineEndsARequestWithItsName) {
  Engine engine = open();
  Request r = ask(0, 10, 900);
  r.deadline_ms = 1e-3;
  auto stream = engine.submit(r);
  ASSERT_TRUE(stream.ok());
  EXPECT_EQ(drain(*stream).end.finish, Finish::deadline);
}

TEST(Streams, APausedEngineKeepsItsRequests) {
  Engine engine = open();
  engine.pause();
  auto stream = engine.submit(ask(0, 10, 5));
  ASSERT_TRUE(stream.ok());
  Event e;
  EXPECT_FALSE(stream->try_next(e));
  engine.resume();
  EXPECT_EQ(drain(*stream).ids.size(), 5U);
}

TEST(Streams, ATokenThatIsBiasedAwayIsNotDrawn) {
  Engine engine = open();
  auto plain = engine.submit(ask(0, 30, 8));
  ASSERT_TRUE(plain.ok());
  const Answer before = drain(*plain);
  Request r = ask(0, 30, 8);
  r.logit_bias = {{before.ids[0], -1e6F}};
  auto stream = engine.submit(r);
  ASSERT_TRUE(stream.ok());
  const Answer after = drain(*stream);
  EXPECT_EQ(std::count(after.ids.begin(), after.ids.end(), before.ids[0]), 0);
  EXPECT_EQ(after.digests[0], before.digests[0]) << "digests are of the logits before edits";
}

TEST(Streams, PenaltiesCountTheAnswerInEveryLoop) {
  Request r = ask(40, 12, 40);
  r.sampling.repetition_penalty = 1.3F;
  r.sampling.frequency_penalty = 0.5F;
  std::vector<std::int32_t> expected;
  for (const char* loop : {"standard", "chained:1", "chained:8"}) {
    Engine engine = open({.loop = loop});
    auto stream = engine.submit(r);
    ASSERT_TRUE(stream.ok());
    const Answer a = drain(*stream);
    if (expected.empty()) expected = a.ids;
    EXPECT_EQ(a.ids, expected) << loop;
  }
  Engine engine = open();
  Request plain = r;
  plain.sampling = {};
  auto stream = engine.submit(plain);
  ASSERT_TRUE(stream.ok());
  EXPECT_NE(drain(*stream).ids, expected) << "the penalties change nothing";
}

TEST(Streams, ARequestThatCanNeverFitIsRefusedByName) {
  auto impl = Engine::Impl::open(kModel, {.engine = {.threads = 1, .context = 1024}, .pool_pages = 8});
  ASSERT_TRUE(impl.ok()) << impl.error().to_string();
  const auto refused = (*impl)->submit(ask(0, 300, 4));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::capacity);
  // One that outgrows the pool alone fails alone, and the engine goes on (trace T18).
  const auto outgrown = (*impl)->generate(ask(0, 100, 200), {});
  ASSERT_FALSE(outgrown.ok());
  EXPECT_EQ(outgrown.error().code, ErrorCode::capacity);
  EXPECT_TRUE((*impl)->generate(ask(0, 20, 4), {}).ok());
}

class Session : public testing::Test {
 protected:
  static std::vector<std::int32_t> talk(Engine& engine, std::vector<std::int32_t> tokens) {
    Request r;
    r.prompt_ids = tokens;
    r.max_tokens = 40;
    r.ignore_eos = true;
    auto stream = engine.submit(r);
    EXPECT_TRUE(stream.ok());
    const Answer a = drain(*stream);
    tokens.insert(tokens.end(), a.ids.begin(), a.ids.end());
    return tokens;
  }
  test::ScratchFolder scratch_;
};

TEST_F(Session, GoesOnAfterARestart) {
  const std::string file = scratch_.file("session");
  std::vector<std::int32_t> text;
  Answer expected;
  Request next;
  {
    Engine engine = open();
    text = talk(engine, heldout(300, 200));
    const auto saved = engine.save_session(text, file);
    ASSERT_TRUE(saved.ok()) << saved.error().to_string();
    EXPECT_EQ(*saved, 239 / 16 * 16);
    next.prompt_ids = text;
    next.prompt_ids.push_back(17);
    next.max_tokens = 8;
    auto stream = engine.submit(next);
    ASSERT_TRUE(stream.ok());
    expected = drain(*stream);
  }
  Engine again = open();
  const auto restored = again.restore_session(file);
  ASSERT_TRUE(restored.ok()) << restored.error().to_string();
  EXPECT_EQ(*restored, 239 / 16 * 16);
  auto stream = again.submit(next);
  ASSERT_TRUE(stream.ok());
  const Answer a = drain(*stream);
  EXPECT_EQ(a.end.usage.cached_tokens, *restored);
  EXPECT_EQ(a.ids, expected.ids);
  EXPECT_EQ(a.digests, expected.digests);
}

// A file of another model has the right form and the right checksum; only its identity differs.
TEST_F(Session, AFileOfAnotherModelIsRefused) {
  const std::string file = scratch_.file("session");
  Engine engine = open();
  ASSERT_TRUE(engine.save_session(talk(engine, heldout(300, 60)), file).ok());
  std::string foreign = test::read_file(file);
  foreign[8] = static_cast<char>(foreign[8] ^ 1);
  const std::size_t body = foreign.size() - sizeof(Digest128);
  const Digest128 digest = hash128(std::string_view(foreign).substr(0, body));
  std::memcpy(foreign.data() + body, &digest, sizeof(digest));
  std::ofstream(file, std::ios::binary) << foreign;
  const auto refused = engine.restore_session(file);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::shape_mismatch) << refused.error().to_string();
  EXPECT_EQ(refused.error().field, "identity");
}

TEST_F(Session, DamagedFilesAreRefused) {
  const std::string file = scratch_.file("session");
  Engine engine = open();
  const auto text = talk(engine, heldout(300, 60));
  ASSERT_TRUE(engine.save_session(text, file).ok());
  const std::string whole = test::read_file(file);
  const auto with = [&](const std::string& bytes) {
    std::ofstream(file, std::ios::binary) << bytes;
    return engine.restore_session(file);
  };
  for (const std::size_t cut : {std::size_t{0}, std::size_t{7}, std::size_t{40}, whole.size() / 2, whole.size() - 1}) {
    const auto r = with(whole.substr(0, cut));
    ASSERT_FALSE(r.ok()) << cut;
    EXPECT_EQ(r.error().code, ErrorCode::malformed) << r.error().to_string();
  }
  std::string flipped = whole;
  flipped[whole.size() / 3] = static_cast<char>(flipped[whole.size() / 3] ^ 4);
  EXPECT_EQ(with(flipped).error().code, ErrorCode::malformed);
  EXPECT_EQ(engine.restore_session(scratch_.file("none")).error().code, ErrorCode::not_found);
  EXPECT_EQ(engine.save_session(heldout(9000, 50), file).error().code, ErrorCode::not_found);
  EXPECT_TRUE(with(whole).ok());
}

}  // namespace
}  // namespace plumb
