#include "kl_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/status.h"
#include "interrupt.h"
#include "measure/parity.h"
#include "model_outputs.h"
#include "progress.h"
#include "serve/engine_impl.h"

namespace plumb::app {
namespace {

using EnginePtr = std::unique_ptr<Engine::Impl>;

// The length of a text that the source writes: enough for a mean, seconds of work for a small model.
constexpr std::int32_t kOwnWindow = 256;
constexpr std::int32_t kOwnWindows = 4;
constexpr std::size_t kMostLogitBytes = std::size_t{2} << 30;

Result<EnginePtr> open(const std::string& path, std::int32_t context, const EngineOptions& engine, const std::string& act, const std::string& kv) {
  Engine::Impl::OpenOptions options;
  options.engine = engine;
  options.engine.act = act;
  options.engine.kv = kv;
  options.engine.context = context;
  options.engine.logit_rows = 64;
  options.engine.max_requests = 1;
  options.engine.prefix_cache = false;
  return Engine::Impl::open(path, options);
}

// Texts drawn at temperature 1 from the source, one window and the token after it each.
Result<std::vector<std::int32_t>> own_text(Engine::Impl& engine, const InterruptGuard& guard) {
  std::vector<std::int32_t> ids;
  for (std::int32_t w = 0; w < kOwnWindows; ++w) {
    Request request{.prompt_ids = {std::max(engine.info().bos_id, 0)}, .max_tokens = kOwnWindow - 1, .ignore_eos = true};
    request.sampling.temperature = 1;
    request.sampling.seed = static_cast<std::uint64_t>(w);
    ids.push_back(request.prompt_ids[0]);
    const auto on_event = [&](const Event& event) {
      if (event.kind == EventKind::token) ids.push_back(event.token);
      return !guard.interrupted();
    };
    PLUMB_ASSIGN(const Event end, engine.generate(request, on_event));
    if (end.finish == Finish::cancelled) return interrupted_error();
  }
  ids.push_back(ids.front());  // the target of the last position
  return ids;
}

// Calls `take(p, logits)` for every position p of a window, in order.
template <class Take>
Status window_logits(Engine::Impl& engine, std::span<const std::int32_t> ids, const InterruptGuard& guard, Take&& take) {
  Request request{.prompt_ids = {ids.begin(), ids.end()}, .max_tokens = 0};
  for (std::size_t p = 0; p < ids.size(); ++p) request.logit_positions.push_back(static_cast<std::int32_t>(p));
  const auto vocab = static_cast<std::size_t>(engine.info().vocab);
  std::size_t next = 0;
  const auto on_event = [&](const Event& event) {
    if (event.kind == EventKind::logits) {
      for (std::size_t at = 0; at + vocab <= event.logits.size(); at += vocab) take(next++, std::span<const float>(event.logits).subspan(at, vocab));
    }
    return !guard.interrupted();
  };
  PLUMB_ASSIGN(const Event end, engine.generate(request, on_event));
  if (end.finish == Finish::cancelled || guard.interrupted()) return interrupted_error();
  return {};
}

// The text of the user's, checked before any model is opened.
Result<std::vector<std::int32_t>> read_text(const KlOptions& o) {
  const auto window = static_cast<std::size_t>(o.window);
  if (o.tokens < o.window) {
    return fail(ErrorCode::invalid_argument, fmt::format("must be at least one window, {}", window), o.tokens_option, "tokens", std::to_string(o.tokens));
  }
  PLUMB_ASSIGN(std::vector<std::int32_t> ids, read_tokens_u16(o.text));
  if (ids.size() < window + 1) {
    return fail(ErrorCode::invalid_argument, fmt::format("must hold one window of {} tokens and the token after it", window), o.text, "tokens",
                std::to_string(ids.size()));
  }
  return ids;
}

Status still_the_same(Engine::Impl& engine, bool checked) {
  PLUMB_TRY(engine.checkpoint().verify_unchanged());
  return checked ? engine.executor().verify() : Status();
}

}  // namespace

Result<KlReport> measure_kl(const std::string& source, const std::string& result, const KlOptions& o) {
  const InterruptGuard guard;
  const std::int32_t window = o.text.empty() ? kOwnWindow : o.window;
  std::vector<std::int32_t> ids;
  if (!o.text.empty()) {
    PLUMB_ASSIGN(ids, read_text(o));
  }
  PLUMB_ASSIGN(const EnginePtr a, open(source, window + 1, o.engine, "f32", "f32"));
  PLUMB_ASSIGN(const EnginePtr b, open(result, window + 1, o.engine, o.act, o.kv));
  if (a->info().vocab != b->info().vocab) {
    return fail(ErrorCode::shape_mismatch, fmt::format("the source has {} tokens", a->info().vocab), result, "vocab",
                std::to_string(b->info().vocab));
  }
  const auto vocab = static_cast<std::size_t>(a->info().vocab);
  const auto w = static_cast<std::size_t>(window);
  if (w * vocab * sizeof(float) > kMostLogitBytes) {
    return fail(ErrorCode::invalid_argument, fmt::format("at most {} tokens: the logits of a window are kept", kMostLogitBytes / sizeof(float) / vocab),
                o.window_option, "window", std::to_string(window));
  }
  if (o.text.empty()) {
    PLUMB_ASSIGN(ids, own_text(*a, guard));
  }
  const std::size_t limit = o.text.empty() ? ids.size() - 1 : std::min(ids.size() - 1, static_cast<std::size_t>(o.tokens));
  const std::size_t windows = limit / w;
  KlReport report{.act = o.act, .kv = o.kv};
  report.text = o.text.empty() ? fmt::format("text of the source's own at temperature 1, {} windows of {}", windows, w)
                               : fmt::format("{}, {} windows of {}", o.text, windows, w);
  Progress progress("KL", windows * w, o.quiet, "tokens");
  std::vector<double> kl;
  std::uint64_t flips = 0;
  std::vector<float> reference(w * vocab);
  for (std::size_t j = 0; j < windows; ++j) {
    const std::span<const std::int32_t> part(ids.data() + j * w, w);
    for (const std::int32_t id : std::span(ids).subspan(j * w, w + 1)) {
      if (id < 0 || static_cast<std::size_t>(id) >= vocab) {
        return fail(ErrorCode::malformed, fmt::format("must be below the vocabulary of {}", vocab), o.text, "token", std::to_string(id));
      }
    }
    PLUMB_TRY(window_logits(*a, part, guard, [&](std::size_t p, std::span<const float> x) { std::copy(x.begin(), x.end(), reference.begin() + static_cast<std::ptrdiff_t>(p * vocab)); }));
    PLUMB_TRY(window_logits(*b, part, guard, [&](std::size_t p, std::span<const float> y) {
      const std::span<const float> x(reference.data() + p * vocab, vocab);
      const auto compared = measure::compare_logits(x, y);
      kl.push_back(compared.kl);
      flips += compared.top1_ours != compared.top1_reference ? 1 : 0;
      // The last position of a text of the source's own has no next token: its windows are texts apart.
      if (o.text.empty() && p + 1 == w) return;
      const auto target = static_cast<std::size_t>(ids[j * w + p + 1]);
      report.source_nats += measure::negative_log_likelihood(x, target);
      report.result_nats += measure::negative_log_likelihood(y, target);
    }));
    progress.update((j + 1) * w);
  }
  PLUMB_TRY(still_the_same(*a, o.engine.checked));
  PLUMB_TRY(still_the_same(*b, o.engine.checked));
  if (o.identify) {
    report.digest = model_digest(b->checkpoint());
    report.device = b->queue().info().name;
    report.isa = b->queue().info().isa;
    report.threads = b->queue().info().threads;
  }
  progress.finish();
  report.positions = kl.size();
  const auto count = static_cast<double>(kl.size());
  for (const double value : kl) report.mean += value / count;
  std::sort(kl.begin(), kl.end());
  report.max = kl.back();
  report.p99 = kl[(kl.size() * 99 + 99) / 100 - 1];
  report.top1_flips = static_cast<double>(flips) / count;
  const double targets = o.text.empty() ? count - static_cast<double>(windows) : count;
  report.source_nats /= targets;
  report.result_nats /= targets;
  return report;
}

std::string kl_text(const KlReport& r) {
  return fmt::format(
      "KL         mean {:.3e}, 99th percentile {:.3e}, largest {:.3e} nats; top-1 flips {:.2f}%\n"
      "nats       {:.5f} per token, the source {:.5f} ({:+.5f})\n"
      "           {} positions of {}; activations {}, KV {}; the source in float32\n",
      r.mean, r.p99, r.max, 100 * r.top1_flips, r.result_nats, r.source_nats, r.result_nats - r.source_nats, r.positions, r.text, r.act, r.kv);
}

nlohmann::ordered_json kl_json(const KlReport& r) {
  return {{"text", r.text},       {"positions", r.positions},     {"mean", r.mean},
          {"p99", r.p99},         {"max", r.max},                 {"top1_flips", r.top1_flips},
          {"nats", r.result_nats}, {"source_nats", r.source_nats}};
}

}  // namespace plumb::app
