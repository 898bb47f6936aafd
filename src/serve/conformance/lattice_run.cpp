#include "serve/conformance/lattice_run.h"

#include <algorithm>
#include <cstdio>

#include "base/counter_rng.h"
#include "serve/conformance/world.h"
#include "serve/session_file.h"

namespace plumb::conformance {
namespace {

std::vector<std::int32_t> some_text(std::uint64_t salt, std::int32_t n, std::int32_t vocab) {
  const Philox philox{salt};
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < n; ++i) tokens.push_back(static_cast<std::int32_t>(philox.block(static_cast<std::uint64_t>(i))[0] % static_cast<std::uint32_t>(vocab)));
  return tokens;
}

Request greedy(std::vector<std::int32_t> prompt, std::int32_t answer) {
  Request r;
  r.prompt_ids = std::move(prompt);
  r.max_tokens = answer;
  r.ignore_eos = true;
  return r;
}

// Sees that a run was what its arm says.
class Witness final : public SchedulerWatch {
 public:
  void opened(const decode::StepTicket& ticket, bool ahead) override {
    const auto& shares = ticket.plan().shares;
    most = std::max(most, shares.size());
    chained += ahead ? 1 : 0;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      if (shares[i].owner != subject) continue;
      if (shares[i].chunk) ++chunks;
      if (!shares[i].chunk && shares.size() == most) place = i + 1;
    }
  }
  RequestId subject = 0;
  std::size_t most = 0;    // requests in one step
  std::size_t place = 0;   // of the subject, in such a step
  std::int32_t chained = 0, chunks = 0;
};

struct Runner {
  const std::string& model;
  const LatticeOptions& options;
  const Arm& arm;
  const bool trace;
  ArmRun run{};

  Status open() {
    run.engine.reset();
    PLUMB_ASSIGN(run.engine, Engine::Impl::open(model, {.engine = arm.options, .trace_steps = trace, .pool_pages = arm.pool_pages}));
    return {};
  }
  std::int32_t vocab() const { return run.engine->info().vocab; }
  Status aside(const Request& request) {
    const auto end = run.engine->generate(request, {});
    return end.ok() ? Status() : end.error();
  }

  // What the engine does before the request comes.
  Status prepare(Request request) {
    request.logit_positions.clear();
    if (arm.start == Arm::Start::cold || arm.start == Arm::Start::teacher) return {};
    if (arm.start == Arm::Start::branch) {
      const auto more = some_text(77, options.answer, vocab());
      request.prompt_ids.resize((request.prompt_ids.size() - 12) / 16 * 16);  // whole pages: states are kept at their ends
      // A recurrent state is kept where a prompt or an answer ends, so there the text up to the branch was a prompt once.
      if (run.engine->aux() != nullptr) PLUMB_TRY(aside(request));
      request.prompt_ids.insert(request.prompt_ids.end(), more.begin(), more.end());
    }
    PLUMB_TRY(aside(request));
    if (arm.trims_windows()) {
      for (std::uint64_t salt = 80; salt < 83; ++salt) PLUMB_TRY(aside(greedy(some_text(salt, 60, vocab()), 1)));
    }
    if (arm.start != Arm::Start::session) return {};
    const auto saved = save_session(*run.engine, request.prompt_ids, options.scratch_file);
    if (!saved.ok()) {
      if (saved.error().code != ErrorCode::unsupported) return saved.error();
      run.refused = saved.error().message;
      return {};
    }
    PLUMB_TRY(open());
    const auto restored = restore_session(*run.engine, options.scratch_file);
    std::remove(options.scratch_file.c_str());
    return restored.ok() ? Status() : restored.error();
  }

  // Says what was seen, and whether it is what the arm wants.
  void testify(const Witness& seen) {
    const auto say = [&](std::string what, bool reached) {
      run.witness += (run.witness.empty() ? "" : ", ") + std::move(what);
      run.reached = run.reached && reached;
    };
    const auto number = [](auto n) { return std::to_string(n); };
    const std::size_t together = static_cast<std::size_t>(arm.before + arm.after) + 1;
    if (arm.pool_pages > 0) say(number(run.usage.retractions) + " retractions", run.usage.retractions > 0);
    else if (together > 1) say(number(seen.most) + " in a step, as number " + number(seen.place), seen.most == together && seen.place == static_cast<std::size_t>(arm.before) + 1);
    if (arm.options.loop != "standard") say(number(seen.chained) + " chained steps", seen.chained > 0);
    if (arm.start == Arm::Start::cold) say(number(seen.chunks) + " chunks", seen.chunks > 0);
    if (arm.start == Arm::Start::teacher) say(number(options.answer) + " rows of the answer in a prompt", true);
    if (arm.trims_windows()) say(number(run.usage.rebuilt_tokens) + " rebuilt", run.usage.rebuilt_tokens > 0);
    else if (arm.options.prefix_cache) say(number(run.usage.cached_tokens) + " cached", run.usage.cached_tokens > 0);
  }

  Status ask(const ArmRun* truth) {
    Request request = greedy(some_text(1, options.prompt, vocab()), options.answer);
    if (arm.start == Arm::Start::teacher) request = greedy(truth->text, 0);
    PLUMB_TRY(prepare(request));
    if (!run.refused.empty()) return {};
    if (!arm.options.prefix_cache) {
      for (std::int32_t p = 0; p < static_cast<std::int32_t>(request.prompt_ids.size()); ++p) request.logit_positions.push_back(p);
    }
    EngineCore& core = run.engine->core();
    Witness seen;
    WatchList watches;
    watches.add(&seen);
    std::vector<RequestId> others;
    const auto other = [&](std::int32_t n) -> Status {
      const std::int32_t answer = arm.pool_pages > 0 ? 60 : 4 * options.answer;
      PLUMB_ASSIGN(const RequestId id, run.engine->submit(greedy(some_text(200 + static_cast<std::uint64_t>(n), arm.pool_pages > 0 ? 15 : 5 + 7 * n, vocab()), answer)));
      others.push_back(id);
      return {};
    };
    for (std::int32_t n = 0; n < arm.before; ++n) PLUMB_TRY(other(n));
    PLUMB_ASSIGN(const RequestId id, run.engine->submit(request));
    for (std::int32_t n = 0; n < arm.after; ++n) PLUMB_TRY(other(arm.before + n));
    seen.subject = id;
    if (trace) {
      run.trace = std::make_unique<StepTrace>(*run.engine, id);
      watches.add(run.trace.get());
    }
    core.scheduler().watch(&watches);
    run.text = request.prompt_ids;
    Event event;
    while (core.next(id, event)) {
      if (event.kind == EventKind::logits) {
        run.digests[event.position] = event.logit_digest;
        if (arm.own_class || truth == nullptr) run.logits[event.position] = event.logits;
      } else if (event.kind == EventKind::token) {
        run.digests[event.position - 1] = event.logit_digest;
        run.text.push_back(event.token);
      }
    }
    run.usage = event.usage;
    for (const RequestId o : others) core.cancel(o);
    for (const RequestId o : others) {
      Event rest;
      while (core.next(o, rest)) {
      }
    }
    core.at_rest([](Scheduler& scheduler) { scheduler.watch(nullptr); });
    if (event.finish != Finish::length) return event.finish == Finish::error ? event.error : fail(ErrorCode::internal, "the request did not end by its length", model, "arm", arm.name);
    testify(seen);
    return {};
  }
};

}  // namespace

Result<ArmRun> run_arm(const std::string& model, const LatticeOptions& options, const Arm& arm, const ArmRun* truth, bool trace) {
  Runner runner{model, options, arm, trace};
  PLUMB_TRY(runner.open());
  if (arm.trims_windows()) {
    const auto& classes = runner.run.engine->layout().classes;
    const bool windows = std::any_of(classes.begin(), classes.end(), [](const kv::KvClass& c) { return !c.residency.full(); });
    if (!windows) runner.run.refused = "no layer has a window";
    if (runner.run.engine->aux() != nullptr) runner.run.refused = "a recurrent state is not rebuilt";
    if (!runner.run.refused.empty()) return std::move(runner.run);
  }
  PLUMB_TRY(runner.ask(truth));
  return std::move(runner.run);
}

}  // namespace plumb::conformance
