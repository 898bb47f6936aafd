// The engine through its public interface, on the bundled model: what requests may say, how answers end, what a fault does.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>

#include "plumb/plumb.h"
#include "serve/engine_impl.h"
#include "story.h"

namespace plumb {
namespace {

const std::string& kModel = test::kStoryModel;
constexpr const char* kPrompt = "The old man looked at the sea and";

using test::Answer;
using test::ask;
using test::heldout;

Engine open(EngineOptions options = {}) {
  if (options.context == 0) options.context = 512;
  options.prefix_cache = false;  // every request from the start; tests/prefix_test.cpp is about the other way
  auto engine = Engine::open(kModel, options);
  EXPECT_TRUE(engine.ok()) << engine.error().to_string();
  return std::move(engine).value();
}

Request greedy(std::int32_t tokens) { return {.prompt = kPrompt, .max_tokens = tokens, .ignore_eos = true}; }

TEST(EngineRequest, EachFieldIsCheckedAndNamed) {
  Engine engine = open({.context = 64});
  struct Case {
    const char* field;
    std::function<void(Request&)> spoil;
  };
  const std::vector<Case> cases = {
      {"temperature", [](Request& r) { r.sampling.temperature = -1; }},
      {"temperature", [](Request& r) { r.sampling.temperature = std::nanf(""); }},
      {"temperature", [](Request& r) { r.sampling.temperature = INFINITY; }},
      {"top_p", [](Request& r) { r.sampling.top_p = 0; }},
      {"top_p", [](Request& r) { r.sampling.top_p = 1.5F; }},
      {"min_p", [](Request& r) { r.sampling.min_p = 1; }},
      {"min_p", [](Request& r) { r.sampling.min_p = -0.1F; }},
      {"top_k", [](Request& r) { r.sampling.top_k = -1; }},
      {"choice", [](Request& r) { r.sampling.choice = -1; }},
      {"max_tokens", [](Request& r) { r.max_tokens = -1; }},
      {"prompt", [](Request& r) { r.prompt.clear(); }},
      {"prompt", [](Request& r) { r.prompt_ids.assign(65, 5); }},
      {"prompt_ids[1]", [](Request& r) { r.prompt_ids = {5, 4096}; }},
      {"prompt_ids[0]", [](Request& r) { r.prompt_ids = {-1, 5}; }},
      {"logit_positions", [](Request& r) { r.prompt_ids = {1, 2, 3}; r.logit_positions = {3}; }},
      {"logit_positions", [](Request& r) { r.prompt_ids = {1, 2, 3}; r.logit_positions = {1, 1}; }},
      {"logit_positions", [](Request& r) { r.prompt_ids = {1, 2, 3}; r.logit_positions = {-1}; }},
  };
  for (const Case& c : cases) {
    Request request = greedy(4);
    c.spoil(request);
    bool called = false;
    const auto end = engine.generate(request, [&](const Event&) { return called = true; });
    ASSERT_FALSE(end.ok()) << c.field;
    EXPECT_EQ(end.error().code, ErrorCode::invalid_argument) << end.error().to_string();
    EXPECT_EQ(end.error().field, c.field) << end.error().to_string();
    EXPECT_FALSE(called);
  }
  EXPECT_EQ(ask(engine, greedy(4)).ids.size(), 4U);
}

TEST(EngineOptions, BadOnesAreNamed) {
  const auto field_of = [](const EngineOptions& options) {
    const auto engine = Engine::open(kModel, options);
    EXPECT_FALSE(engine.ok());
    return engine.ok() ? std::string() : engine.error().field;
  };
  EXPECT_EQ(field_of({.device = "abacus"}), "device");
  EXPECT_EQ(field_of({.chunk_rows = 0}), "chunk_rows");
  EXPECT_EQ(field_of({.logit_rows = 5000}), "logit_rows");
  EXPECT_FALSE(Engine::open(kModel, {.isa = "z80"}).ok());
  EXPECT_FALSE(Engine::open(kModel, {.threads = -1}).ok());
  const auto missing = Engine::open(kModel + "/nothing-here");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
}

TEST(EngineFinish, Length) {
  Engine engine = open();
  const Answer answer = ask(engine, greedy(7));
  EXPECT_EQ(answer.end.finish, Finish::length);
  EXPECT_EQ(answer.ids.size(), 7U);
  EXPECT_EQ(answer.end.usage.completion_tokens, 7);
  EXPECT_EQ(answer.text, engine.decode(answer.ids));
  const Answer nothing = ask(engine, greedy(0));
  EXPECT_EQ(nothing.end.finish, Finish::length);
  EXPECT_TRUE(nothing.ids.empty());
}

TEST(EngineFinish, StopTokenIsReportedAndNotSpelled) {
  Engine engine = open();
  const Answer whole = ask(engine, greedy(20));
  Request request = greedy(20);
  request.stop_ids = {whole.ids[6]};
  const auto first = std::find(whole.ids.begin(), whole.ids.end(), whole.ids[6]);
  const auto before = static_cast<std::size_t>(first - whole.ids.begin());
  const Answer answer = ask(engine, request);
  EXPECT_EQ(answer.end.finish, Finish::stop_token);
  EXPECT_EQ(answer.end.token, whole.ids[6]);
  EXPECT_EQ(answer.ids.size(), before + 1);
  EXPECT_EQ(answer.text, engine.decode({whole.ids.begin(), first}));
}

TEST(EngineFinish, StopStringAcrossTokens) {
  Engine engine = open();
  const Answer whole = ask(engine, greedy(30));
  // From inside one token to inside the next, wherever both are long enough.
  std::size_t seam = 0;
  for (std::size_t i = 1; i < whole.ids.size() && seam == 0; ++i) {
    if (engine.decode({whole.ids[i - 1]}).size() >= 2 && engine.decode({whole.ids[i]}).size() >= 2) seam = i;
  }
  ASSERT_GT(seam, 0U);
  const std::string left = engine.decode({whole.ids.begin(), whole.ids.begin() + static_cast<std::ptrdiff_t>(seam)});
  const std::string right = engine.decode({whole.ids[seam]});
  Request request = greedy(30);
  request.stop = {"\x01 never", left.substr(left.size() - 1) + right.substr(0, 2)};
  const Answer answer = ask(engine, request);
  EXPECT_EQ(answer.end.finish, Finish::stop_string);
  EXPECT_EQ(answer.text, whole.text.substr(0, whole.text.find(request.stop[1])));
  EXPECT_EQ(answer.text.find(request.stop[1]), std::string::npos);
}

TEST(EngineFinish, ContextFull) {
  Engine engine = open({.context = 40});
  const auto prompt = heldout(500, 30);
  const Answer answer = ask(engine, {.prompt_ids = prompt, .max_tokens = 1000, .ignore_eos = true});
  EXPECT_EQ(answer.end.finish, Finish::context);
  EXPECT_EQ(answer.ids.size(), 11U);  // positions 30..39 are computed, and each gives a token, as position 29 did
  EXPECT_EQ(ask(engine, {.prompt_ids = heldout(500, 40), .max_tokens = 5, .ignore_eos = true}).ids.size(), 1U);
}

TEST(EngineFinish, CancelledAtAToken) {
  Engine engine = open();
  int tokens = 0;
  int ends = 0;
  const auto end = engine.generate(greedy(50), [&](const Event& event) {
    if (event.kind == EventKind::finished) ++ends;
    if (event.kind == EventKind::token) ++tokens;
    return tokens < 3;
  });
  ASSERT_TRUE(end.ok());
  EXPECT_EQ(end->finish, Finish::cancelled);
  EXPECT_EQ(tokens, 3);
  EXPECT_EQ(ends, 1);
  EXPECT_EQ(ask(engine, greedy(5)).ids.size(), 5U);
}

TEST(EngineFinish, CancelledInsideAPrompt) {
  Engine engine = open({.chunk_rows = 16});
  std::vector<std::int32_t> seen;
  const Request request{.prompt_ids = heldout(0, 100), .max_tokens = 5};
  const auto end = engine.generate(request, [&](const Event& event) {
    if (event.kind == EventKind::progress) seen.push_back(event.position);
    EXPECT_NE(event.kind, EventKind::token);
    return event.position < 48;
  });
  ASSERT_TRUE(end.ok());
  EXPECT_EQ(end->finish, Finish::cancelled);
  EXPECT_EQ(seen, (std::vector<std::int32_t>{16, 32, 48}));
}

TEST(EngineSampling, IsAFunctionOfSeedAndChoice) {
  Engine engine = open();
  const auto with = [&](std::uint64_t seed, std::int32_t choice) {
    Request request = greedy(24);
    request.sampling = {.temperature = 1, .top_p = 0.95F, .seed = seed, .choice = choice};
    return ask(engine, request).ids;
  };
  const auto first = with(7, 0);
  ask(engine, greedy(9));  // whatever runs between
  EXPECT_EQ(with(7, 0), first);
  EXPECT_NE(with(8, 0), first);
  EXPECT_NE(with(7, 1), first);
  EXPECT_NE(ask(engine, greedy(24)).ids, first);
  Engine other = open({.threads = 1, .chunk_rows = 3});
  Request request = greedy(24);
  request.sampling = {.temperature = 1, .top_p = 0.95F, .seed = 7};
  EXPECT_EQ(ask(other, request).ids, first);
}

TEST(EngineSampling, OneCandidateLeftIsGreedy) {
  Engine engine = open();
  const auto expected = ask(engine, greedy(16)).ids;
  for (const Sampling& s : {Sampling{.temperature = 1, .top_k = 1}, Sampling{.temperature = 1, .top_p = 1e-6F}, Sampling{.temperature = 1, .min_p = 0.999999F}}) {
    Request request = greedy(16);
    request.sampling = s;
    EXPECT_EQ(ask(engine, request).ids, expected);
  }
}

TEST(EngineLogits, ArriveWhereAsked) {
  Engine engine = open({.chunk_rows = 16, .logit_rows = 2});
  Request request{.prompt_ids = heldout(40, 50), .max_tokens = 4, .ignore_eos = true};
  const Answer plain = ask(engine, request);
  request.logit_positions = {0, 1, 2, 15, 16, 49};
  request.token_logits = true;
  std::vector<std::int32_t> positions;
  std::vector<std::vector<float>> prompt_logits, token_logits;
  std::vector<std::int32_t> tokens;
  std::vector<std::uint64_t> digests;
  std::uint64_t last_digest = 0;
  const auto end = engine.generate(request, [&](const Event& event) {
    if (event.kind == EventKind::logits) {
      positions.push_back(event.position);
      prompt_logits.push_back(event.logits);
      last_digest = event.logit_digest;
    }
    if (event.kind == EventKind::token) {
      tokens.push_back(event.token);
      token_logits.push_back(event.logits);
      digests.push_back(event.logit_digest);
    }
    return true;
  });
  ASSERT_TRUE(end.ok()) << end.error().to_string();
  EXPECT_EQ(positions, request.logit_positions);
  for (const auto& row : prompt_logits) EXPECT_EQ(row.size(), 4096U);
  // The first token was drawn from the last prompt position, bit for bit.
  EXPECT_EQ(prompt_logits.back(), token_logits.front());
  EXPECT_EQ(last_digest, digests.front());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    EXPECT_EQ(std::max_element(token_logits[i].begin(), token_logits[i].end()) - token_logits[i].begin(), tokens[i]);
  }
  // Looking changes nothing.
  EXPECT_EQ(tokens, plain.ids);
  EXPECT_EQ(digests, plain.digests);
}

TEST(EngineFaults, AreTypedAndTheEngineGoesOn) {
  using device::FaultPoint;
  Engine engine = open();
  const Answer clean = ask(engine, greedy(8));
  const auto live = engine.impl().queue().live();
  struct Case {
    FaultPoint point;
    std::uint64_t nth;
    ErrorCode code;
  };
  const std::uint64_t launches = engine.impl().executor().program().phases.size();
  for (const Case& c : std::initializer_list<Case>{{FaultPoint::begin, 3, ErrorCode::out_of_memory},
                                                   {FaultPoint::submit, 2, ErrorCode::device_fault},
                                                   {FaultPoint::execute, launches / 2, ErrorCode::device_fault},
                                                   {FaultPoint::execute, 3 * launches + 5, ErrorCode::device_fault},
                                                   {FaultPoint::bad_index, 1, ErrorCode::device_fault},
                                                   {FaultPoint::non_finite, 2 * launches + 9, ErrorCode::device_fault}}) {
    engine.impl().queue().faults().arm(c.point, c.nth);
    int ends = 0;
    std::size_t tokens = 0;
    const auto end = engine.generate(greedy(8), [&](const Event& event) {
      ends += event.kind == EventKind::finished ? 1 : 0;
      if (event.kind == EventKind::token) {
        EXPECT_EQ(event.token, clean.ids[tokens++]);  // what came before the fault is right
      }
      return true;
    });
    ASSERT_FALSE(end.ok()) << to_string(c.point);
    EXPECT_EQ(end.error().code, c.code) << to_string(c.point) << ": " << end.error().to_string();
    EXPECT_EQ(ends, 0);
    EXPECT_LT(tokens, clean.ids.size());
    EXPECT_FALSE(engine.impl().queue().faults().armed(c.point)) << "the fault never happened";
    EXPECT_EQ(engine.impl().queue().live(), live);
    const Answer after = ask(engine, greedy(8));
    EXPECT_EQ(after.ids, clean.ids) << to_string(c.point);
    EXPECT_EQ(after.digests, clean.digests) << to_string(c.point);
  }
}

TEST(EngineFaults, ALostDeviceStaysLost) {
  Engine engine = open();
  engine.impl().queue().faults().arm(device::FaultPoint::device_lost, 5);
  for (int i = 0; i < 2; ++i) {
    const auto end = engine.generate(greedy(4));
    ASSERT_FALSE(end.ok());
    EXPECT_EQ(end.error().code, ErrorCode::device_lost) << end.error().to_string();
  }
}

// 420 tokens wind the 128-token windows three times round, with chunks that do not divide them.
TEST(EngineChecked, AFullRunLeavesEveryGuardWhole) {
  const Request request{.prompt_ids = heldout(2000, 420), .max_tokens = 12, .ignore_eos = true};
  Engine plain = open();
  const Answer expected = ask(plain, request);
  Engine checked = open({.chunk_rows = 50, .checked = true});
  const Answer answer = ask(checked, request);
  EXPECT_EQ(answer.ids, expected.ids);
  EXPECT_EQ(answer.digests, expected.digests);
  const Status guards = checked.impl().executor().verify();
  EXPECT_TRUE(guards.ok()) << guards.error().to_string();
}

TEST(EngineDiag, ComputesTheSameBits) {
  const Request request{.prompt_ids = heldout(100, 140), .max_tokens = 6, .ignore_eos = true};
  Engine plain = open();
  const Answer expected = ask(plain, request);
  for (const bool checked : {false, true}) {
    Engine diag = open({.checked = checked, .diag = true});
    const Answer answer = ask(diag, request);
    EXPECT_EQ(answer.ids, expected.ids);
    EXPECT_EQ(answer.digests, expected.digests);
  }
}

TEST(EngineDiag, NamesKernelLayerAndBuffer) {
  Engine engine = open({.diag = true});
  const auto& program = engine.impl().executor().program();
  const auto route = engine.impl().executor().route();
  const auto phase = [&] {
    for (std::size_t i = 0; i < program.phases.size(); ++i) {
      if (std::string(program.phases[i].op->name) == "moe_down" && program.phases[i].layer == 3) return i;
    }
    return program.phases.size();
  }();
  ASSERT_LT(phase, program.phases.size());
  engine.impl().queue().faults().arm(device::FaultPoint::non_finite, phase + 1);
  const auto end = engine.generate(greedy(3));
  ASSERT_FALSE(end.ok());
  const std::string said = end.error().to_string();
  EXPECT_EQ(end.error().code, ErrorCode::device_fault);
  EXPECT_NE(said.find("layer 3"), std::string::npos) << said;
  EXPECT_NE(said.find(route[phase]->kernel.name), std::string::npos) << said;
  EXPECT_NE(said.find("output out"), std::string::npos) << said;
  EXPECT_NE(said.find("buffer "), std::string::npos) << said;
}

// Who does a launch is decided by what it declares (device/cpu/cpu_buffer.cpp), so attention's keys must be in it: 32 tokens decoded behind 200
// positions declare what those positions cost, to the byte.
TEST(EngineCost, StepsDeclareWhatTheirPositionsCost) {
  Engine engine = open();
  const auto declared_by = [&](std::int32_t tokens) {
    const device::Cost before = engine.impl().queue().counters().declared;
    const auto end = engine.generate({.prompt_ids = heldout(0, 200), .max_tokens = tokens, .ignore_eos = true});
    EXPECT_TRUE(end.ok()) << end.error().to_string();
    const device::Cost after = engine.impl().queue().counters().declared;
    return device::Cost{after.bytes_read - before.bytes_read, after.bytes_written - before.bytes_written, after.flops - before.flops};
  };
  const device::Cost prompt = declared_by(1);
  const device::Cost all = declared_by(33);
  device::Cost expected;
  for (std::int32_t position = 200; position < 232; ++position) expected += engine.impl().executor().declared_cost(position);
  EXPECT_EQ(all.bytes_read - prompt.bytes_read, expected.bytes_read);
  EXPECT_EQ(all.flops - prompt.flops, expected.flops);
}

TEST(EngineRoute, CountsPositionsOfEveryPhase) {
  Engine engine = open({.chunk_rows = 16});
  ask(engine, {.prompt_ids = heldout(0, 40), .max_tokens = 5, .ignore_eos = true});
  const auto& executor = engine.impl().executor();
  const auto& phases = executor.program().phases;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const bool all = phases[i].over == kernels::RowCount::rows;
    EXPECT_EQ(executor.use(i).rows, all ? 44U : 5U) << phases[i].op->name;  // 40 prompt rows and 4 decode steps; 5 draws
    EXPECT_EQ(executor.use(i).steps, all ? 7U : 5U) << phases[i].op->name;
  }
}

}  // namespace
}  // namespace plumb
