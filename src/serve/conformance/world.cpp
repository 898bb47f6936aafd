#include "serve/conformance/world.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace plumb::conformance {
namespace {

// A workload of ten requests takes a few hundred turns; one that is not over by then will never be.
constexpr std::int32_t kMostTurns = 6000;
constexpr std::uint64_t kTurnNs = 1'000'000;

EngineOptions engine_options(const WorldOptions& o) {
  EngineOptions e;
  e.threads = 1;
  e.context = o.context;
  e.chunk_rows = o.chunk_rows;
  e.logit_rows = 8;
  e.max_requests = o.max_requests;
  e.loop = o.loop;
  e.prefix_cache = o.prefix_cache;
  e.cache_window_pages = o.window_pages;
  return e;
}

std::string key_of(const Request& r) {
  std::string key;
  const auto put = [&](const auto& v) { key.append(reinterpret_cast<const char*>(&v), sizeof(v)); };
  for (const std::int32_t t : r.prompt_ids) put(t);
  key += '|';
  put(r.max_tokens);
  const Sampling& s = r.sampling;
  for (const float f : {s.temperature, s.top_p, s.min_p, s.repetition_penalty, s.frequency_penalty, s.presence_penalty}) put(f);
  put(s.top_k);
  put(s.seed);
  put(r.ignore_eos);
  for (const std::int32_t t : r.stop_ids) put(t);
  key += '|';
  for (const LogitBias& b : r.logit_bias) {
    put(b.token);
    put(b.bias);
  }
  for (const std::string& stop : r.stop) key += "|" + stop;
  if (r.choices) {
    key += '?';
    for (const std::string& choice : *r.choices) key += "|" + choice;
  }
  return key;
}

}  // namespace

WorldOptions variant_for(WorldOptions options, std::uint64_t seed) {
  if (seed / kWorkloadsPerEngine % 2 == 0) return options;
  options.pool_pages *= 6;
  options.window_pages = 0;
  options.max_requests = std::max(1, options.max_requests - 1);
  return options;
}

const char* to_string(Deed deed) {
  constexpr const char* kNames[] = {"ask", "abort", "pause", "resume", "flush", "fault", "no memory", "late", "drop", "lose", "stop", "attend", "wait"};
  return kNames[static_cast<std::size_t>(deed)];
}

Result<std::unique_ptr<Reference>> Reference::open(const WorldOptions& options) {
  EngineOptions e = engine_options(options);
  e.prefix_cache = false;
  e.loop = "standard";
  e.max_requests = 1;
  PLUMB_ASSIGN(auto engine, Engine::Impl::open(options.model, {.engine = e, .inline_device = true}));
  return std::unique_ptr<Reference>(new Reference(std::move(engine)));
}

const Reference::Answer& Reference::answer(const Request& request) {
  const std::string key = key_of(request);
  if (const auto it = known_.find(key); it != known_.end()) return it->second;
  Request alone = request;
  alone.deadline_ms = 0;
  alone.logit_positions.clear();
  Answer answer;
  const auto end = engine_->generate(alone, [&](const Event& event) {
    if (event.kind == EventKind::token) {
      answer.tokens.push_back(event.token);
      answer.digests.push_back(event.logit_digest);
    }
    return true;
  });
  PLUMB_CHECK(end.ok());
  return known_.emplace(key, std::move(answer)).first->second;
}

std::vector<float> Reference::first_logits(const Request& request) {
  PLUMB_CHECK(request.token_logits && request.max_tokens == 1);
  std::vector<float> logits;
  const auto end = engine_->generate(request, [&](const Event& event) {
    if (event.kind == EventKind::token) logits = event.logits;
    return true;
  });
  PLUMB_CHECK(end.ok());
  return logits;
}

Result<std::unique_ptr<World>> World::open(const WorldOptions& options, Reference& reference, bool tracked) {
  auto world = std::unique_ptr<World>(new World(options, reference));
  PLUMB_ASSIGN(world->engine_, Engine::Impl::open(options.model, {.engine = engine_options(options),
                                                                  .inline_device = true,
                                                                  .hold = true,
                                                                  .clock = &world->clock_,
                                                                  .pool_pages = options.pool_pages}));
  world->auditor_ = std::make_unique<Auditor>(*world->engine_);
  world->watches_.add(world->auditor_.get());
  world->engine_->core().scheduler().watch(&world->watches_);
  if (tracked) world->engine_->context().observer = &world->tracker_;
  return world;
}

World::~World() {
  if (engine_ == nullptr) return;
  engine_->core().scheduler().watch(nullptr);
  engine_->context().observer = nullptr;
}

std::int32_t World::ask(const Request& request) {
  const auto number = static_cast<std::int32_t>(asked_.size());
  const auto id = engine_->submit(request);
  asked_.emplace_back();
  if (!id.ok()) {  // refused by name: nothing was queued
    asked_.back().refused = id.error();
    return number;
  }
  asked_.back().id = *id;
  alive_.push_back(number);
  auditor_->asked(*id, request, request.prompt_ids);
  const Reference::Answer& truth = reference_.answer(request);
  auditor_->expect(*id, truth.tokens, truth.digests);
  return number;
}

const RequestState* World::state(std::int32_t number) const {
  const auto& requests = engine_->core().scheduler().peek_requests();
  const auto it = requests.find(asked(number).id);
  return it == requests.end() ? nullptr : it->second.get();
}

void World::forget() {
  PLUMB_CHECK(alive_.empty() && after_turn_.empty());
  asked_.clear();
}

void World::order(Order order) {
  engine_->core().order(order);
  if (order == Order::pause) auditor_->paused();
  if (order == Order::resume) auditor_->resumed();
}

void World::act(const Happening& h) {
  device::FaultInjector& faults = engine_->queue().faults();
  EngineCore& core = engine_->core();
  switch (h.deed) {
    case Deed::ask: ask(h.request); return;
    case Deed::abort:
      if (std::find(alive_.begin(), alive_.end(), h.of) == alive_.end()) return;
      auditor_->aborted(asked(h.of).id);
      core.cancel(asked(h.of).id);
      return;
    case Deed::drop: {
      fetch();  // what has come was seen
      const auto at = std::find(alive_.begin(), alive_.end(), h.of);
      if (at == alive_.end()) return;
      auditor_->aborted(asked(h.of).id);
      auditor_->dropped(asked(h.of).id);
      core.abandon(asked(h.of).id);
      alive_.erase(at);
      return;
    }
    case Deed::pause: order(Order::pause); return;
    case Deed::resume: order(Order::resume); return;
    case Deed::flush: order(Order::flush); return;
    case Deed::stop: order(Order::stop); return;
    case Deed::attend: core.at_rest([](Scheduler& scheduler) { scheduler.attend(); }); return;
    case Deed::fault:
      auditor_->may_fail();
      faults.arm(h.row < 0 ? device::FaultPoint::execute : device::FaultPoint::bad_index, h.nth, h.row);
      return;
    case Deed::lose:
      auditor_->may_fail();
      faults.arm(device::FaultPoint::device_lost, 1);
      return;
    case Deed::no_memory:
      auditor_->may_fail();
      faults.arm(device::FaultPoint::begin, 1);
      return;
    case Deed::late: {
      // Some of what is held back completes now, in order.
      for (std::uint64_t i = 0; i < h.nth && engine_->queue().release_next(); ++i) {
      }
      return;
    }
    case Deed::wait:
      fetch();  // what has come was seen before
      clock_.advance_ns(h.nth * 1'000'000);
      return;
  }
}

void World::fetch() {
  for (std::size_t i = 0; i < alive_.size();) {
    Asked& asked = asked_[static_cast<std::size_t>(alive_[i])];
    Event event;
    while (engine_->core().try_next(asked.id, event)) {
      auditor_->received(asked.id, event);
      if (event.kind == EventKind::token) asked.tokens.push_back(event);
      if (event.kind != EventKind::finished) continue;
      ++asked.terminals;
      asked.end = event;
    }
    if (asked.terminals > 0) {
      alive_.erase(alive_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
}

bool World::turn() {
  Scheduler& scheduler = engine_->core().scheduler();
  fetch();  // an order may have ended requests: before time moves on
  clock_.advance_ns(kTurnNs);
  const std::uint64_t began = clock_.now_ns();
  const Scheduler::Health before = scheduler.health();
  auditor_->told(before);
  const bool worked = scheduler.turn();
  tracker_.release_delayed();
  fetch();
  const Scheduler::Health health = scheduler.health();
  auditor_->told(health);
  if (worked && health.launched == before.launched && health.settled == before.settled && health.progress == before.progress) {
    auditor_->violate("C25", "a turn says that it worked, and nothing moved");
  }
  auditor_->turned(began);
  for (const Happening& h : std::exchange(after_turn_, {})) act(h);
  return worked;
}

bool World::rest() {
  const Scheduler& scheduler = engine_->core().scheduler();
  for (std::int32_t turns = 0; turns < kMostTurns && auditor_->violations().empty(); ++turns) {
    if (scheduler.peek_mode() == Mode::paused) order(Order::resume);
    if (!turn() && !scheduler.active()) {
      if (!alive_.empty()) auditor_->violate("C25", "idle, and requests wait for their end");
      return alive_.empty();
    }
  }
  return false;
}

void World::run(const Workload& workload) {
  Scheduler& scheduler = engine_->core().scheduler();
  asked_.clear();
  alive_.clear();
  std::size_t next = 0;
  std::int32_t turn = 0;
  for (; turn < kMostTurns && auditor_->violations().empty(); ++turn) {
    for (; next < workload.happenings.size() && workload.happenings[next].turn <= turn; ++next) act(workload.happenings[next]);
    const bool all = next == workload.happenings.size();
    if (all && scheduler.peek_mode() == Mode::paused) order(Order::resume);
    if (this->turn() || !all || scheduler.active()) continue;
    if (!alive_.empty()) auditor_->violate("C25", "idle, and requests wait for their end");
    break;
  }
  if (turn == kMostTurns) auditor_->violate("C19", "the workload does not end");
  for (std::size_t p = 0; p < static_cast<std::size_t>(device::FaultPoint::count_); ++p) {
    engine_->queue().faults().arm(static_cast<device::FaultPoint>(p), 0);
  }
  if (auditor_->violations().empty()) auditor_->idle();
}

}  // namespace plumb::conformance
