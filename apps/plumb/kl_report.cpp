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

// Logits of every position of a window, one after another.
Result<std::vector<float>> window_logits(Engine::Impl& engine, std::span<const std::int32_t> ids, const InterruptGuard& guard) {
  Request request{.prompt_ids = {ids.begin(), ids.end()}, .max_tokens = 0};
  for (std::size_t p = 0; p < ids.size(); ++p) request.logit_positions.push_back(static_cast<std::int32_t>(p));
  std::vector<float> logits;
  logits.reserve(ids.size() * static_cast<std::size_t>(engine.info().vocab));
  const auto on_event = [&](const Event& event) {
    if (event.kind == EventKind::logits) logits.insert(logits.end(), event.logits.begin(), event.logits.end());
    return !guard.interrupted();
  };
  PLUMB_ASSIGN(const Event end, engine.generate(request, on_event));
  if (end.finish == Finish::cancelled) return interrupted_error();
  return logits;
}

}  // namespace

Result<KlReport> measure_kl(const std::string& source, const std::string& result, const KlOptions& o) {
  const InterruptGuard guard;
  std::int32_t window = o.text.empty() ? kOwnWindow : o.window;
  PLUMB_ASSIGN(const EnginePtr a, open(source, window + 1, o.engine, "f32", "f32"));
  PLUMB_ASSIGN(const EnginePtr b, open(result, window + 1, o.engine, o.act, o.kv));
  if (a->info().vocab != b->info().vocab) {
    return fail(ErrorCode::shape_mismatch, fmt::format("the source has {} tokens", a->info().vocab), result, "vocab",
                std::to_string(b->info().vocab));
  }
  std::vector<std::int32_t> ids;
  if (o.text.empty()) {
    PLUMB_ASSIGN(ids, own_text(*a, guard));
  } else {
    PLUMB_ASSIGN(ids, read_tokens_u16(o.text));
  }
  const auto w = static_cast<std::size_t>(window);
  const std::size_t limit = o.text.empty() ? ids.size() - 1 : std::min(ids.size() - std::min<std::size_t>(ids.size(), 1), static_cast<std::size_t>(o.tokens));
  const std::size_t windows = limit / w;
  if (windows == 0) {
    return fail(ErrorCode::invalid_argument, fmt::format("must hold one window of {} tokens and the token after it", w), o.text, "tokens",
                std::to_string(limit));
  }
  KlReport report{.act = o.act, .kv = o.kv};
  report.text = o.text.empty() ? fmt::format("text of the source's own at temperature 1, {} windows of {}", windows, w)
                               : fmt::format("{}, {} windows of {}", o.text, windows, w);
  Progress progress("KL", windows * w, o.quiet, "tokens");
  const auto vocab = static_cast<std::size_t>(a->info().vocab);
  std::vector<double> kl;
  std::uint64_t flips = 0;
  for (std::size_t j = 0; j < windows; ++j) {
    const std::span<const std::int32_t> part(ids.data() + j * w, w);
    PLUMB_ASSIGN(const std::vector<float> reference, window_logits(*a, part, guard));
    PLUMB_ASSIGN(const std::vector<float> ours, window_logits(*b, part, guard));
    // The last position of a text of the source's own has no next token: its windows are texts apart.
    for (std::size_t p = 0; p < w; ++p) {
      const std::span<const float> x(reference.data() + p * vocab, vocab), y(ours.data() + p * vocab, vocab);
      const auto compared = measure::compare_logits(x, y);
      kl.push_back(compared.kl);
      flips += compared.top1_ours != compared.top1_reference ? 1 : 0;
      if (o.text.empty() && p + 1 == w) continue;
      const auto target = static_cast<std::size_t>(ids[j * w + p + 1]);
      if (target >= vocab) return fail(ErrorCode::malformed, fmt::format("must be below the vocabulary of {}", vocab), o.text, "token", std::to_string(target));
      report.source_nats += measure::negative_log_likelihood(x, target);
      report.result_nats += measure::negative_log_likelihood(y, target);
    }
    progress.update((j + 1) * w);
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
