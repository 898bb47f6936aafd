#include "bench_run.h"

#include <fmt/format.h>

#include <optional>

#include "base/clock.h"
#include "base/counter_rng.h"
#include "base/hash.h"
#include "base/status.h"
#include "interrupt.h"

namespace plumb::app {
namespace {

constexpr std::uint64_t kPromptKey = 11;

}  // namespace

std::string BenchCase::name() const {
  return fmt::format("{}{}{}", kind == Kind::prefill ? "pp" : "tg", tokens, depth > 0 ? fmt::format("@d{}", depth) : "");
}

std::int32_t BenchCase::positions() const { return std::max(depth, 1) + tokens + 1; }

std::vector<std::int32_t> bench_tokens(std::int32_t count, std::int32_t vocab) {
  const Philox random{kPromptKey};
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<std::int32_t>(random.block(static_cast<std::uint64_t>(i))[0] % static_cast<std::uint32_t>(vocab)));
  }
  return ids;
}

Result<BenchSample> run_bench_case(Engine& engine, const BenchCase& bench, const std::function<bool()>& go_on) {
  const bool prefill = bench.kind == BenchCase::Kind::prefill;
  const std::int32_t prompt = prefill ? bench.depth + bench.tokens : std::max(bench.depth, 1);
  const Request request{.prompt_ids = bench_tokens(prompt, engine.info().vocab),
                        .max_tokens = prefill ? 1 : bench.tokens + 1,
                        .ignore_eos = true};
  std::vector<std::int32_t> drawn;
  std::vector<std::uint64_t> digests;
  std::optional<std::uint64_t> from;
  std::uint64_t to = 0;
  if (prefill && bench.depth == 0) from = monotonic_ns();
  const auto on_event = [&](const Event& event) {
    if (event.kind == EventKind::progress && prefill && event.position == bench.depth) from = monotonic_ns();
    if (event.kind == EventKind::token) {
      to = monotonic_ns();
      if (!prefill && drawn.empty()) from = to;
      drawn.push_back(event.token);
      digests.push_back(event.logit_digest);
    }
    return go_on();
  };
  PLUMB_ASSIGN(const Event end, engine.generate(request, on_event));
  if (end.finish == Finish::cancelled) return interrupted_error();
  if (!from || static_cast<std::int32_t>(drawn.size()) != request.max_tokens) {
    return fail(ErrorCode::internal, fmt::format("drew {} tokens of {}; no step of the prompt may have ended at the depth", drawn.size(),
                                                 request.max_tokens),
                bench.name(), "depth", std::to_string(bench.depth));
  }
  const double seconds = static_cast<double>(to - *from) * 1e-9;
  const std::string bits = hash128(std::as_bytes(std::span(drawn))).hex() + hash128(std::as_bytes(std::span(digests))).hex();
  return BenchSample{bench.tokens / seconds, hash128(std::as_bytes(std::span(bits))).hex()};
}

}  // namespace plumb::app
