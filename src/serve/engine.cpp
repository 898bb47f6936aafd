#include "plumb/plumb.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "model/arch/table.h"
#include "model/decoder.h"
#include "model/open_tokenizer.h"
#include "serve/engine_impl.h"
#include "serve/session_file.h"

namespace plumb {
namespace {

// Without a wish of the user: long enough for any conversation, short enough that the full-attention pages of a 20b model
// reserve under 2 GB. Pages are touched, and so take memory, only as positions are used.
constexpr std::int32_t kDefaultContext = 32768;

// Requests that change logits share this many changes in one step, beside the most that one request alone can have.
constexpr std::int32_t kSharedEdits = 16384;

// Rows of a step whose keys workers may share out, each over the whole context. More rows are tasks enough.
constexpr std::int32_t kRowsInParts = 4;

Error bad_option(const char* field, std::string message, std::string value) {
  return fail(ErrorCode::invalid_argument, std::move(message), "engine options", field, std::move(value));
}

}  // namespace

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
  if (o.device != "auto" && o.device != "cpu") return bad_option("device", "must be auto or cpu", o.device);
  if (o.chunk_rows < 1 || o.chunk_rows > 4096) return bad_option("chunk_rows", "must be from 1 to 4096", std::to_string(o.chunk_rows));
  if (o.logit_rows < 1 || o.logit_rows > 4096) return bad_option("logit_rows", "must be from 1 to 4096", std::to_string(o.logit_rows));
  if (o.act != "f32" && o.act != "q8") return bad_option("act", "must be f32 or q8", o.act);
  if (o.max_requests < 1 || o.max_requests > 1024) return bad_option("max_requests", "must be from 1 to 1024", std::to_string(o.max_requests));
  const auto kv_format = kernels::parse_kv_format("kv", o.kv);
  if (!kv_format.ok()) return bad_option("kv", kv_format.error().message, o.kv);
  PLUMB_ASSIGN(const kernels::AttentionRequest attention, kernels::parse_attention(o.attention));
  PLUMB_ASSIGN(const decode::LoopChoice loop, decode::parse_loop(o.loop));
  if (o.cache_positions < 0) return bad_option("cache_positions", "must be at least 0", std::to_string(o.cache_positions));
  if (o.cache_states < 0 || o.cache_states > (1 << 16)) return bad_option("cache_states", "must be from 0 to 65536", std::to_string(o.cache_states));
  if (o.cache_window_pages < 0 || o.cache_window_pages > (1 << 20)) {
    return bad_option("cache_window_pages", "must be from 0 to 1048576", std::to_string(o.cache_window_pages));
  }
  kernels::Isa isa = kernels::best_isa();
  if (!o.isa.empty()) {
    PLUMB_ASSIGN(isa, kernels::parse_isa(o.isa));
  }

  PLUMB_ASSIGN(format::Checkpoint checkpoint, format::Checkpoint::open(model));
  PLUMB_ASSIGN(model::DecoderSpec spec, model::read_spec(checkpoint));
  PLUMB_ASSIGN(model::DecoderWeights weights, model::read_weights(checkpoint, spec));
  PLUMB_ASSIGN(text::Tokenizer tokenizer, model::open_tokenizer(checkpoint));
  if (tokenizer.vocab_size() > spec.vocab) {
    return fail(ErrorCode::shape_mismatch, "the tokenizer has more tokens than the embedding, which has " + std::to_string(spec.vocab),
                model, "tokenizer", std::to_string(tokenizer.vocab_size()));
  }
  const std::int32_t context = o.context > 0 ? o.context : std::min(spec.max_positions, kDefaultContext);
  const std::int32_t chunk = std::min(o.chunk_rows, context);
  const std::int32_t pool_positions = options.pool_pages > 0 ? options.pool_pages * kv::kPageRows
                                                             : context + (o.prefix_cache ? std::min(context, o.cache_positions) : 0);
  PLUMB_ASSIGN(kv::KvLayout layout, kv::plan_kv(spec, {.context = context,
                                                   .sequences = o.max_requests,
                                                   .chunk_rows = chunk,
                                                   .chain_depth = loop.k,
                                                   .pool_positions = pool_positions,
                                                   .snapshot_pages = o.prefix_cache ? o.cache_window_pages : 0,
                                                   .format = *kv_format}));

  auto impl = std::unique_ptr<Impl>(new Impl(std::move(checkpoint), std::move(spec), std::move(tokenizer), std::move(layout)));
  const Clock& clock = options.clock != nullptr ? *options.clock : impl->wall_;
  for (const kv::KvClass& c : impl->layout_.classes) {
    impl->pools_.push_back(std::make_unique<kv::PagePool>(c.geometry.pages, &impl->context_, &impl->steps_));
    impl->pool_list_.push_back(impl->pools_.back().get());
  }
  std::int32_t state_slots = 0;
  if (model::has_recurrent(impl->spec_)) {
    state_slots = o.max_requests + (o.prefix_cache ? o.cache_states : 0);
    impl->aux_ = std::make_unique<kv::PagePool>(state_slots, &impl->context_, &impl->steps_);
  }
  impl->slots_ = std::make_unique<kv::SlotTable>(impl->layout_, &impl->context_);
  if (o.prefix_cache) impl->tree_ = std::make_unique<kv::PrefixTree>(impl->layout_, impl->pool_list_, impl->aux_.get(), &impl->context_);
  const auto geometry = impl->layout_.geometry();
  const std::int32_t logit_rows = std::min(std::max(o.logit_rows, o.max_requests), chunk + o.max_requests - 1);
  PLUMB_ASSIGN(model::LoweredModel lowered,
               model::lower(impl->spec_, std::move(weights), geometry,
                            {.max_rows = chunk + o.max_requests - 1,  // a whole chunk, whoever else decodes
                             .max_logit_rows = logit_rows,
                             .act = o.act == "q8" ? model::Act::q8 : model::Act::f32,
                             .sequences = o.max_requests,
                             .max_edits = std::max(kSharedEdits, std::min(impl->spec_.vocab, context) + 2048),
                             .attention_slices = kRowsInParts * static_cast<std::int32_t>(kernels::attention_slices(0, context)),
                             .state_slots = state_slots}));
  const std::unique_ptr<decode::Loop> shape = loop.entry->make(loop.k);
  decode::ExecutorOptions executor{.isa = isa, .depth = shape->depth(), .state_slots = state_slots, .keep_logits = true, .diag = o.diag,
                                   .attention = attention};
  PLUMB_CHECK(!options.trace_routing || !options.trace_steps);
  if (options.trace_routing) executor.taps = impl->find_routers(lowered.program);
  if (options.trace_steps) {
    impl->outputs_ = decode::phase_outputs(lowered.program);
    for (const decode::PhaseOutput& output : impl->outputs_) executor.taps.push_back(output.tap);
  }
  PLUMB_ASSIGN(impl->queue_, device::open_cpu_queue({.threads = o.threads,
                                                     .pin = o.pin,
                                                     .checked = o.checked,
                                                     .inline_execution = options.inline_device,
                                                     .hold = options.hold}));
  PLUMB_ASSIGN(impl->executor_, decode::Executor::open(*impl->queue_, std::move(lowered), impl->layout_, executor));

  ModelInfo& info = impl->info_;
  info.path = model;
  info.family = impl->spec_.family;
  info.container = std::string(format::to_string(impl->checkpoint_.container()));
  info.vocab = impl->spec_.vocab;
  info.hidden = impl->spec_.hidden;
  info.layers = static_cast<std::int32_t>(impl->spec_.layers.size());
  info.max_positions = impl->spec_.max_positions;
  info.context = context;
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
                                                            .loop = loop,
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
