#include "serve/open_plan.h"

#include <algorithm>
#include <string>
#include <utility>

#include "kernels/geometry/attention_plan.h"
#include "kernels/isa.h"
#include "kv/residency.h"

namespace plumb {
namespace {

// Without a wish of the user: long enough for any conversation, short enough that the full-attention pages of a 20b model
// reserve under 2 GB. Pages are touched, and so take memory, only as positions are used.
constexpr std::int32_t kDefaultContext = 32768;

// Requests that change logits share this many changes in one step, beside the most that one request alone can have.
constexpr std::int32_t kSharedEdits = 16384;

Error bad_option(const char* field, std::string message, std::string value) {
  return fail(ErrorCode::invalid_argument, std::move(message), "engine options", field, std::move(value));
}

// The options that are words.
struct Words {
  decode::LoopChoice loop;
  kernels::AttentionRequest attention;
  kernels::KvFormat kv = kernels::KvFormat::f32;
  kernels::Isa isa = kernels::Isa::portable;
};

Result<Words> read_options(const EngineOptions& o) {
  if (o.device != "auto" && o.device != "cpu") return bad_option("device", "must be auto or cpu", o.device);
  if (o.chunk_rows < 1 || o.chunk_rows > 4096) return bad_option("chunk_rows", "must be from 1 to 4096", std::to_string(o.chunk_rows));
  if (o.logit_rows < 1 || o.logit_rows > 4096) return bad_option("logit_rows", "must be from 1 to 4096", std::to_string(o.logit_rows));
  if (o.act != "f32" && o.act != "q8") return bad_option("act", "must be f32 or q8", o.act);
  if (o.max_requests < 1 || o.max_requests > 1024) return bad_option("max_requests", "must be from 1 to 1024", std::to_string(o.max_requests));
  Words words;
  const auto kv = kernels::parse_kv_format("kv", o.kv);
  if (!kv.ok()) return bad_option("kv", kv.error().message, o.kv);
  words.kv = *kv;
  PLUMB_ASSIGN(words.attention, kernels::parse_attention(o.attention));
  PLUMB_ASSIGN(words.loop, decode::parse_loop(o.loop));
  if (o.cache_positions < 0) return bad_option("cache_positions", "must be at least 0", std::to_string(o.cache_positions));
  if (o.cache_states < 0 || o.cache_states > (1 << 16)) return bad_option("cache_states", "must be from 0 to 65536", std::to_string(o.cache_states));
  if (o.cache_window_pages < 0 || o.cache_window_pages > (1 << 20)) {
    return bad_option("cache_window_pages", "must be from 0 to 1048576", std::to_string(o.cache_window_pages));
  }
  words.isa = kernels::best_isa();
  if (!o.isa.empty()) {
    PLUMB_ASSIGN(words.isa, kernels::parse_isa(o.isa));
  }
  return words;
}

}  // namespace

std::int32_t context_of(const EngineOptions& options, const model::DecoderSpec& spec) {
  return options.context > 0 ? options.context : std::min(spec.max_positions, kDefaultContext);
}

Status check_options(const EngineOptions& options) {
  const auto words = read_options(options);
  return words.ok() ? Status{} : words.error();
}

Result<OpenPlan> plan_open(const EngineOptions& o, const model::DecoderSpec& spec, model::DecoderWeights weights, std::int32_t pool_pages) {
  PLUMB_ASSIGN(const Words words, read_options(o));
  OpenPlan plan;
  plan.loop = words.loop;
  plan.context = context_of(o, spec);
  const std::int32_t chunk = std::min(o.chunk_rows, plan.context);
  PLUMB_ASSIGN(plan.layout,
               kv::plan_kv(spec, {.context = plan.context,
                                  .sequences = o.max_requests,
                                  .chunk_rows = chunk,
                                  .chain_depth = plan.loop.k,
                                  .pool_positions = pool_pages > 0 ? pool_pages * kv::kPageRows
                                                                   : plan.context + (o.prefix_cache ? std::min(plan.context, o.cache_positions) : 0),
                                  .snapshot_pages = o.prefix_cache ? o.cache_window_pages : 0,
                                  .format = words.kv}));
  if (model::has_recurrent(spec)) plan.state_slots = o.max_requests + (o.prefix_cache ? o.cache_states : 0);
  const std::int32_t rows = chunk + o.max_requests - 1;  // a whole chunk, whoever else decodes
  PLUMB_ASSIGN(plan.lowered,
               model::lower(spec, std::move(weights), plan.layout.geometry(),
                            {.max_rows = rows,
                             .max_logit_rows = std::min(std::max(o.logit_rows, o.max_requests), rows),
                             .act = o.act == "q8" ? model::Act::q8 : model::Act::f32,
                             .sequences = o.max_requests,
                             .max_edits = std::max(kSharedEdits, std::min(spec.vocab, plan.context) + 2048),
                             .attention_places = kernels::attention_places(plan.context),
                             .state_slots = plan.state_slots}));
  plan.executor = {.isa = words.isa,
                   .depth = plan.loop.entry->make(plan.loop.k)->depth(),
                   .state_slots = plan.state_slots,
                   .keep_logits = true,
                   .diag = o.diag,
                   .attention = words.attention};
  return plan;
}

}  // namespace plumb
