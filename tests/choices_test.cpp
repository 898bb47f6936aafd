// Answers that must be one of a list of texts, through the public interface: every loop, beside others, refused by name.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "plumb/plumb.h"
#include "serve/engine_impl.h"
#include "story.h"
#include "subprocess.h"

namespace plumb {
namespace {

using test::Answer;
using test::drain;
using test::heldout;

Engine open(EngineOptions options = {}) {
  options.context = 1024;
  options.threads = 2;
  auto engine = Engine::open(test::kStoryModel, options);
  EXPECT_TRUE(engine.ok()) << engine.error().to_string();
  return std::move(engine).value();
}

Request plain(std::size_t from, std::int32_t tokens) {
  return {.prompt_ids = heldout(from, 40), .max_tokens = tokens, .ignore_eos = true};
}

Request choose(std::size_t from, std::vector<std::string> choices) {
  Request r = plain(from, 200);
  r.choices = std::move(choices);
  return r;
}

Answer ask(Engine& engine, const Request& request) {
  auto stream = engine.submit(request);
  EXPECT_TRUE(stream.ok()) << stream.error().to_string();
  return stream.ok() ? drain(*stream) : Answer{};
}

class ChoiceLoops : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Engine, ChoiceLoops, testing::Values("standard", "chained:1", "chained:4"), [](const auto& tested) {
  std::string name = tested.param;
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
});

const std::vector<std::string> kLong = {" the old man walked down to the sea", " the old woman sang to her grandchildren", " nothing at all"};

TEST_P(ChoiceLoops, TheAnswerIsOneOfThem) {
  Engine engine = open({.loop = GetParam()});
  std::set<std::string> said;
  for (int i = 0; i < 24; ++i) {
    Request r = choose(static_cast<std::size_t>(90 * i), kLong);
    // The hottest draws leave every allowed token alike, and banned ones must still have no chance.
    if (i % 3 == 1) r.sampling = {.temperature = 1, .top_p = 0.9F, .seed = static_cast<std::uint64_t>(i)};
    if (i % 3 == 2) r.sampling = {.temperature = 1e38F, .top_k = i % 2 == 0 ? 4000 : 0, .seed = static_cast<std::uint64_t>(i)};
    if (i % 4 == 3) r.sampling.repetition_penalty = 1.5F;
    const Answer a = ask(engine, r);
    EXPECT_EQ(a.end.finish, Finish::complete) << a.end.error.to_string();
    EXPECT_NE(std::find(kLong.begin(), kLong.end(), a.text), kLong.end()) << a.text;
    EXPECT_EQ(engine.decode(a.ids), a.text);
    said.insert(a.text);
  }
  EXPECT_GT(said.size(), 1U) << "the model chooses";
}

// One choice begins the other, so the model must say where it ends: by its end token, or by going on.
TEST_P(ChoiceLoops, AChoiceThatBeginsAnotherEndsWithTheEndToken) {
  Engine engine = open({.loop = GetParam()});
  std::set<std::string> said;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    Request r = choose(500, {" no", " no way"});
    r.sampling = {.temperature = 1e38F, .seed = seed};
    const Answer a = ask(engine, r);
    said.insert(a.text);
    if (a.text == " no") {
      EXPECT_EQ(a.end.finish, Finish::stop_token);
      EXPECT_NE(std::find(engine.info().eos_ids.begin(), engine.info().eos_ids.end(), a.ids.back()), engine.info().eos_ids.end());
    } else {
      EXPECT_EQ(a.end.finish, Finish::complete);
    }
  }
  EXPECT_EQ(said, (std::set<std::string>{" no", " no way"}));
}

// A bias that would forbid every choice changes nothing: the mask comes after it. A limit cuts, and says so.
TEST_P(ChoiceLoops, BiasesDoNotBreakTheConstraintAndLimitsAreTold) {
  Engine engine = open({.loop = GetParam()});
  Request r = choose(100, {" yes"});
  const std::vector<std::int32_t> spelled = engine.encode(" yes").value();
  for (const std::int32_t id : spelled) r.logit_bias.push_back({id, -1e6F});
  const Answer a = ask(engine, r);
  EXPECT_EQ(a.text, " yes");
  Request cut = choose(100, {kLong[0]});
  cut.max_tokens = 2;
  const Answer b = ask(engine, cut);
  EXPECT_EQ(b.end.finish, Finish::length);
  EXPECT_TRUE(kLong[0].starts_with(b.text));
}

// Counts launches: a step that was not launched ahead begins a new chain.
class Chains final : public SchedulerWatch {
 public:
  void opened(const decode::StepTicket& ticket, bool ahead) override {
    (ahead ? chained : begun) += 1;
    waiting += ticket.plan().rules_later ? 1 : 0;
  }
  int chained = 0, begun = 0, waiting = 0;
};

// One constrained (or penalised) request among four: the others give the same bits, every step is still launched ahead of its
// predecessor's result, and the chain breaks exactly as often as without it.
TEST(ChainedChoices, ARequestThatWaitsForTheHostDoesNotUnchainTheOthers) {
  struct Run {
    std::vector<Answer> answers;
    Chains chains;
  };
  const auto run = [](const Request& guest) {
    Engine engine = open({.max_requests = 4, .loop = "chained:4", .prefix_cache = false});
    Run r;
    engine.impl().core().scheduler().watch(&r.chains);
    std::vector<Stream> streams;
    for (std::size_t i = 0; i < 3; ++i) streams.push_back(engine.submit(plain(700 * i, 60)).value());
    streams.push_back(engine.submit(guest).value());
    for (Stream& s : streams) r.answers.push_back(drain(s));
    engine.impl().core().at_rest([](Scheduler& s) { s.watch(nullptr); });
    return r;
  };
  const Request constrained = choose(3000, {kLong[0], kLong[1]});
  Engine alone = open({.prefix_cache = false});
  const Answer expected = ask(alone, constrained);
  const auto tokens = static_cast<std::int32_t>(expected.ids.size());
  ASSERT_GT(tokens, 4);
  const Run free = run(plain(3000, tokens));  // the same number of steps, with nothing to wait for
  const Run held = run(constrained);
  Request penalised = plain(3000, tokens);
  penalised.sampling.frequency_penalty = 0.5F;
  const Run counted = run(penalised);
  for (const Run* r : {&held, &counted}) {
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(r->answers[i].ids, free.answers[i].ids) << i;
      EXPECT_EQ(r->answers[i].digests, free.answers[i].digests) << i;
    }
    EXPECT_EQ(r->chains.begun, free.chains.begun) << "a chain was broken for the guest";
    // All of the guest's draws but those of its prompt and of the step that begins the chain; and one more that was launched before
    // the host saw its end.
    EXPECT_GE(r->chains.waiting, tokens - 2);
    EXPECT_LE(r->chains.waiting, tokens);
  }
  EXPECT_EQ(free.chains.waiting, 0);
  EXPECT_GT(free.chains.chained, 50);
  EXPECT_EQ(held.answers[3].ids, expected.ids);
  EXPECT_EQ(held.answers[3].digests, expected.digests);
  EXPECT_EQ(held.answers[3].end.finish, Finish::complete);
}

TEST(Choices, WhatIsNoConstraintIsRefusedAndNothingRuns) {
  Engine engine = open();
  const auto refused = [&](const Request& r, ErrorCode code, const std::string& field) {
    const auto stream = engine.submit(r);
    ASSERT_FALSE(stream.ok()) << field;
    EXPECT_EQ(stream.error().code, code) << stream.error().to_string();
    EXPECT_EQ(stream.error().field, field);
    EXPECT_FALSE(stream.error().value.empty()) << stream.error().to_string();
  };
  refused(choose(0, {}), ErrorCode::invalid_argument, "choices");
  refused(choose(0, {"yes", ""}), ErrorCode::invalid_argument, "choices[1]");
  refused(choose(0, {"yes", "\xC3"}), ErrorCode::invalid_argument, "choices[1]");
  refused(choose(0, {std::string(1025, 'x')}), ErrorCode::limit_exceeded, "choices[0]");
  refused(choose(0, std::vector<std::string>(1025, "x")), ErrorCode::limit_exceeded, "choices");
  Request with_stop = choose(0, {"yes"});
  with_stop.stop = {"e"};
  refused(with_stop, ErrorCode::invalid_argument, "stop");
  Request with_ids = choose(0, {"yes"});
  with_ids.stop_ids = {5};
  refused(with_ids, ErrorCode::invalid_argument, "stop_ids");
  EXPECT_EQ(engine.impl().core().scheduler().health().launched, 0U);
}

TEST(Choices, OfTheProgram) {
  const auto run = test::run_plumb({"run", test::kStoryModel, "-p", "The answer is", "--choices", " yes, no", "--choices", " perhaps", "-q"});
  ASSERT_EQ(run.status, 0) << run.err;
  const std::string text = run.out.substr(0, run.out.find('\n'));
  EXPECT_TRUE(text == " yes" || text == " no" || text == " perhaps") << run.out;
  const auto none = test::run_plumb({"run", test::kStoryModel, "-p", "x", "--choices", ""});
  EXPECT_NE(none.status, 0);
  EXPECT_NE(none.err.find("choices"), std::string::npos) << none.err;
}

}  // namespace
}  // namespace plumb
