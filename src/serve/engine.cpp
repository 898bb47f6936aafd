#include "plumb/plumb.h"

#include <algorithm>

#include "model/arch/table.h"
#include "model/decoder.h"
#include "model/open_tokenizer.h"
#include "serve/engine_impl.h"

namespace plumb {
namespace {

// Without a wish of the user: long enough for any conversation, short enough that the full-attention pages of a 20b model
// reserve under 2 GB. Pages are touched, and so take memory, only as positions are used.
constexpr std::int32_t kDefaultContext = 32768;


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
    case Finish::cancelled: return "cancelled";
  }
  return "unknown";
}

Result<std::unique_ptr<Engine::Impl>> Engine::Impl::open(const std::string& model, const OpenOptions& options) {
  const EngineOptions& o = options.engine;
  if (o.device != "auto" && o.device != "cpu") return bad_option("device", "must be auto or cpu", o.device);
  if (o.chunk_rows < 1 || o.chunk_rows > 4096) return bad_option("chunk_rows", "must be from 1 to 4096", std::to_string(o.chunk_rows));
  if (o.logit_rows < 1 || o.logit_rows > 4096) return bad_option("logit_rows", "must be from 1 to 4096", std::to_string(o.logit_rows));
  if (o.act != "f32" && o.act != "q8") return bad_option("act", "must be f32 or q8", o.act);
  if (o.cache_positions < 0) return bad_option("cache_positions", "must be at least 0", std::to_string(o.cache_positions));
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
  PLUMB_ASSIGN(kv::KvLayout layout, kv::plan_kv(spec, {.context = context,
                                                   .sequences = 1,
                                                   .chunk_rows = chunk,
                                                   .pool_positions = context + (o.prefix_cache ? std::min(context, o.cache_positions) : 0),
                                                   .snapshot_pages = o.prefix_cache ? o.cache_window_pages : 0}));

  auto impl = std::unique_ptr<Impl>(new Impl(std::move(checkpoint), std::move(spec), std::move(tokenizer), std::move(layout)));
  impl->chunk_rows_ = chunk;
  for (const kv::KvClass& c : impl->layout_.classes) {
    impl->pools_.push_back(std::make_unique<kv::PagePool>(c.geometry.pages));
    impl->pool_list_.push_back(impl->pools_.back().get());
  }
  if (o.prefix_cache) impl->tree_ = std::make_unique<kv::PrefixTree>(impl->layout_, impl->pool_list_);
  const auto geometry = impl->layout_.geometry();
  PLUMB_ASSIGN(model::LoweredModel lowered,
               model::lower(impl->spec_, std::move(weights), geometry,
                            {.max_rows = chunk, .max_logit_rows = std::min(o.logit_rows, chunk), .sequences = 1,
                             .act = o.act == "q8" ? model::Act::q8 : model::Act::f32}));
  decode::ExecutorOptions executor{.isa = isa, .depth = 1, .keep_logits = true, .diag = o.diag};
  if (options.trace_routing) executor.taps = impl->router_taps(lowered.program);
  PLUMB_ASSIGN(impl->queue_, device::open_cpu_queue({.threads = o.threads, .checked = o.checked}));
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
  return impl;
}

std::vector<decode::Tap> Engine::Impl::router_taps(const kernels::Program& program) {
  std::vector<decode::Tap> taps;
  for (std::size_t i = 0; i < program.phases.size(); ++i) {
    const kernels::Phase& phase = program.phases[i];
    if (phase.op != &kernels::op<kernels::RouteArgs>()) continue;
    const auto& args = *static_cast<const kernels::RouteArgs*>(phase.args.data());
    router_taps_.push_back({phase.layer, args.expert_count, args.top_k, taps.size()});
    taps.push_back({i, args.logits.slot, static_cast<std::uint64_t>(args.expert_count) * 4});
    taps.push_back({i, args.experts.slot, static_cast<std::uint64_t>(args.top_k) * 4});
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

Result<Event> Engine::generate(const Request& request, const EventFn& on_event) { return impl_->generate(request, on_event); }

}  // namespace plumb
