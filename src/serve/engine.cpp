#include "plumb/plumb.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "model/arch/table.h"
#include "model/open_tokenizer.h"
#include "serve/engine_impl.h"
#include "serve/open_plan.h"
#include "serve/session_file.h"

namespace plumb {

std::string_view to_string(Finish finish) {
  switch (finish) {
    case Finish::none: return "none";
    case Finish::stop_token: return "stop_token";
    case Finish::stop_string: return "stop_string";
    case Finish::length: return "length";
    case Finish::context: return "context";
    case Finish::complete: return "complete";
    case Finish::cancelled: return "cancelled";
    case Finish::deadline: return "deadline";
    case Finish::error: return "error";
  }
  return "unknown";
}

Result<std::unique_ptr<Engine::Impl>> Engine::Impl::open(const std::string& model, const OpenOptions& options) {
  const EngineOptions& o = options.engine;
  PLUMB_TRY(check_options(o));
  PLUMB_ASSIGN(format::Checkpoint checkpoint, format::Checkpoint::open(model));
  PLUMB_ASSIGN(model::DecoderSpec spec, model::read_spec(checkpoint));
  PLUMB_ASSIGN(model::DecoderWeights weights, model::read_weights(checkpoint, spec));
  PLUMB_ASSIGN(text::Tokenizer tokenizer, model::open_tokenizer(checkpoint));
  if (tokenizer.vocab_size() > spec.vocab) {
    return fail(ErrorCode::shape_mismatch, "the tokenizer has more tokens than the embedding, which has " + std::to_string(spec.vocab),
                model, "tokenizer", std::to_string(tokenizer.vocab_size()));
  }
  PLUMB_ASSIGN(OpenPlan plan, plan_open(o, spec, std::move(weights), options.pool_pages));

  auto impl = std::unique_ptr<Impl>(new Impl(std::move(checkpoint), std::move(spec), std::move(tokenizer), std::move(plan.layout)));
  const Clock& clock = options.clock != nullptr ? *options.clock : impl->wall_;
  for (const kv::KvClass& c : impl->layout_.classes) {
    impl->pools_.push_back(std::make_unique<kv::PagePool>(c.geometry.pages, &impl->context_, &impl->steps_));
    impl->pool_list_.push_back(impl->pools_.back().get());
  }
  if (plan.state_slots > 0) impl->aux_ = std::make_unique<kv::PagePool>(plan.state_slots, &impl->context_, &impl->steps_);
  impl->slots_ = std::make_unique<kv::SlotTable>(impl->layout_, &impl->context_);
  if (o.prefix_cache) impl->tree_ = std::make_unique<kv::PrefixTree>(impl->layout_, impl->pool_list_, impl->aux_.get(), &impl->context_);
  PLUMB_CHECK(!options.trace_routing || !options.trace_steps);
  if (options.trace_routing) plan.executor.taps = impl->find_routers(plan.lowered.program);
  if (options.trace_steps) {
    impl->outputs_ = decode::phase_outputs(plan.lowered.program);
    for (const decode::PhaseOutput& output : impl->outputs_) plan.executor.taps.push_back(output.tap);
  }
  PLUMB_ASSIGN(impl->queue_, device::open_cpu_queue({.threads = o.threads,
                                                     .pin = o.pin,
                                                     .checked = o.checked,
                                                     .inline_execution = options.inline_device,
                                                     .hold = options.hold}));
  PLUMB_ASSIGN(impl->executor_, decode::Executor::open(*impl->queue_, std::move(plan.lowered), impl->layout_, plan.executor));

  ModelInfo& info = impl->info_;
  info.path = model;
  info.family = impl->spec_.family;
  info.container = std::string(format::to_string(impl->checkpoint_.container()));
  info.vocab = impl->spec_.vocab;
  info.hidden = impl->spec_.hidden;
  info.layers = static_cast<std::int32_t>(impl->spec_.layers.size());
  info.max_positions = impl->spec_.max_positions;
  info.context = plan.context;
  const auto eos = impl->tokenizer_.eos_ids();
  info.eos_ids.assign(eos.begin(), eos.end());
  info.bos_id = impl->tokenizer_.bos_id().value_or(-1);
  impl->core_ = std::make_unique<EngineCore>(SchedulerParts{.context = impl->context_,
                                                            .clock = clock,
                                                            .executor = *impl->executor_,
                                                            .layout = impl->layout_,
                                                            .pools = impl->pool_list_,
                                                            .aux = impl->aux_.get(),
                                                            .slots = *impl->slots_,
                                                            .tree = impl->tree_.get(),
                                                            .steps = impl->steps_,
                                                            .tokenizer = impl->tokenizer_,
                                                            .info = impl->info_,
                                                            .loop = plan.loop,
                                                            .max_requests = o.max_requests,
                                                            .router_taps = impl->router_taps_});
  return impl;
}

Result<RequestId> Engine::Impl::submit(const Request& request) {
  std::vector<std::int32_t> prompt = request.prompt_ids;
  if (prompt.empty()) {
    PLUMB_ASSIGN(prompt, tokenizer_.encode(request.prompt, {.add_bos = tokenizer_.adds_bos(), .parse_special = request.parse_special}));
  }
  PLUMB_TRY(core_->scheduler().validate(request, prompt));
  if (const auto stop = text::StopMatcher::create(request.stop); !stop.ok()) return stop.error();
  std::shared_ptr<const text::Choices> choices;
  if (request.choices) {
    PLUMB_ASSIGN(text::Choices compiled, text::Choices::compile(token_index(), *request.choices, !info_.eos_ids.empty()));
    choices = std::make_shared<const text::Choices>(std::move(compiled));
  }
  return core_->submit(request, std::move(prompt), std::move(choices));
}

const text::TokenIndex& Engine::Impl::token_index() {
  std::call_once(token_index_once_, [this] { token_index_ = std::make_unique<text::TokenIndex>(tokenizer_); });
  return *token_index_;
}

Result<Event> Engine::Impl::generate(const Request& request, const EventFn& on_event, const RouteFn& on_route) {
  PLUMB_CHECK(!on_route || !router_taps_.empty());
  PLUMB_ASSIGN(const RequestId id, submit(request));
  // Nothing is computed before somebody waits for it, so no route of the request is missed.
  if (on_route) core_->at_rest([&](Scheduler& scheduler) { scheduler.on_route(on_route); });
  Event event;
  bool cancelled = false;
  while (core_->next(id, event)) {
    if (event.kind == EventKind::finished) break;
    if (!on_event || cancelled || on_event(event)) continue;
    core_->cancel(id);
    cancelled = true;  // what still comes was on its way
  }
  if (on_route) core_->at_rest([](Scheduler& scheduler) { scheduler.on_route({}); });
  if (event.finish == Finish::error) return event.error;
  if (on_event) on_event(event);
  return event;
}

std::vector<decode::Tap> Engine::Impl::find_routers(const kernels::Program& program) {
  std::vector<decode::Tap> taps;
  for (std::size_t i = 0; i < program.phases.size(); ++i) {
    const kernels::Phase& phase = program.phases[i];
    if (phase.op != &kernels::op<kernels::RouteArgs>()) continue;
    const auto& args = *static_cast<const kernels::RouteArgs*>(phase.args.data());
    router_taps_.push_back({phase.layer, args.expert_count, args.top_k, taps.size()});
    taps.push_back({.phase = i, .slot = args.logits.slot, .row_bytes = static_cast<std::uint64_t>(args.expert_count) * 4});
    taps.push_back({.phase = i, .slot = args.experts.slot, .row_bytes = static_cast<std::uint64_t>(args.top_k) * 4});
  }
  return taps;
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() = default;

Result<Engine> Engine::open(const std::string& model, const EngineOptions& options) {
  PLUMB_ASSIGN(auto impl, Impl::open(model, {.engine = options}));
  return Engine(std::move(impl));
}

const ModelInfo& Engine::info() const { return impl_->info(); }

Result<std::vector<std::int32_t>> Engine::encode(std::string_view text, bool parse_special) const {
  const text::Tokenizer& tokenizer = impl_->tokenizer();
  return tokenizer.encode(text, {.add_bos = tokenizer.adds_bos(), .parse_special = parse_special});
}

std::string Engine::decode(const std::vector<std::int32_t>& ids) const { return impl_->tokenizer().decode(ids); }

std::int32_t Engine::special_id(std::string_view text) const { return impl_->tokenizer().special_id(text).value_or(-1); }

Result<Stream> Engine::submit(const Request& request) {
  PLUMB_ASSIGN(const RequestId id, impl_->submit(request));
  return Stream(impl_->core(), id);
}

Result<Event> Engine::generate(const Request& request, const EventFn& on_event) { return impl_->generate(request, on_event); }

void Engine::pause() { impl_->core().order(Order::pause); }
void Engine::resume() { impl_->core().order(Order::resume); }
void Engine::flush() { impl_->core().order(Order::flush); }

Result<std::int32_t> Engine::save_session(const std::vector<std::int32_t>& tokens, const std::string& file) {
  Result<std::int32_t> saved = 0;
  impl_->core().at_rest([&](Scheduler&) {
    const ActivityScope scope(impl_->context(), Activity::save);
    saved = plumb::save_session(*impl_, tokens, file);
  });
  return saved;
}

Result<std::int32_t> Engine::restore_session(const std::string& file) {
  Result<std::int32_t> restored = 0;
  impl_->core().at_rest([&](Scheduler&) {
    const ActivityScope scope(impl_->context(), Activity::save);
    restored = plumb::restore_session(*impl_, file);
  });
  return restored;
}

Stream::Stream(Stream&& other) noexcept : core_(std::exchange(other.core_, nullptr)), id_(other.id_) {}
Stream& Stream::operator=(Stream&& other) noexcept {
  std::swap(core_, other.core_);
  std::swap(id_, other.id_);
  return *this;
}
Stream::~Stream() {
  if (core_ != nullptr) core_->abandon(id_);
}
bool Stream::next(Event& event) { return core_ != nullptr && core_->next(id_, event); }
bool Stream::try_next(Event& event) { return core_ != nullptr && core_->try_next(id_, event); }
void Stream::cancel() {
  if (core_ != nullptr) core_->cancel(id_);
}

}  // namespace plumb
