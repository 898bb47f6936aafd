#include "bench_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/clock.h"
#include "base/counter_rng.h"
#include "base/hash.h"
#include "base/status.h"
#include "interrupt.h"

namespace plumb::app {
namespace {

constexpr std::uint64_t kPromptKey = 11;

std::string fingerprint_of(const std::vector<std::int32_t>& drawn, const std::vector<std::uint64_t>& digests) {
  const std::string bits = hash128(std::as_bytes(std::span(drawn))).hex() + hash128(std::as_bytes(std::span(digests))).hex();
  return hash128(std::as_bytes(std::span(bits))).hex();
}

// Seconds since 1970 at `ns` of the monotonic clock, which must have been a moment ago.
double unix_seconds(std::uint64_t ns) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  return now.count() - static_cast<double>(monotonic_ns() - ns) * 1e-9;
}

// One of several requests that draw together.
struct Drawing {
  Stream stream;
  std::vector<std::int32_t> tokens;
  std::vector<std::uint64_t> digests;
  bool ended = false;
  std::optional<Error> error;

  // False after the terminal event.
  bool take(const Event& event) {
    if (event.kind == EventKind::token) {
      tokens.push_back(event.token);
      digests.push_back(event.logit_digest);
    }
    if (event.kind == EventKind::finished) {
      ended = true;
      if (event.finish == Finish::error) error = event.error;
    }
    return !ended;
  }
  // Reads on until `count` tokens are drawn or the request has ended.
  void draw_to(std::size_t count) {
    Event event;
    while (!ended && tokens.size() < count && stream.next(event)) take(event);
  }
  // Takes what was computed already.
  void catch_up() {
    Event event;
    while (!ended && stream.try_next(event)) take(event);
  }
};

std::size_t count_drawn(std::vector<Drawing>& all) {
  std::size_t count = 0;
  for (Drawing& d : all) {
    d.catch_up();
    count += d.tokens.size();
  }
  return count;
}

Result<BenchSample> run_streams(Engine& engine, const BenchCase& bench, std::int32_t chunk_rows, const std::function<bool()>& go_on) {
  std::vector<Drawing> all(static_cast<std::size_t>(bench.streams));
  for (std::size_t i = 0; i < all.size(); ++i) {
    PLUMB_ASSIGN(all[i].stream, engine.submit({.prompt_ids = bench_tokens(std::max(bench.depth, 1), engine.info().vocab, bench.same_text ? 0 : static_cast<std::int32_t>(i)),
                                               .max_tokens = bench.drawn(chunk_rows),
                                               .ignore_eos = true}));
  }
  for (Drawing& d : all) d.draw_to(1);
  const std::size_t before = count_drawn(all);
  const std::uint64_t from = monotonic_ns();
  const auto one_ended = [&] { return std::any_of(all.begin(), all.end(), [](const Drawing& d) { return d.ended; }); };
  while (!one_ended() && go_on()) {
    for (Drawing& d : all) d.draw_to(d.tokens.size() + 1);
  }
  const std::size_t after = count_drawn(all);
  const std::uint64_t to = monotonic_ns();
  const double seconds = static_cast<double>(to - from) * 1e-9;
  const double ended = unix_seconds(to);
  if (!go_on()) return interrupted_error();
  std::string bits;
  for (Drawing& d : all) {
    d.draw_to(static_cast<std::size_t>(bench.drawn(chunk_rows)) + 1);
    if (d.error) return *d.error;
    bits += fingerprint_of(d.tokens, d.digests);
  }
  return BenchSample{static_cast<double>(after - before) / seconds, ended, hash128(std::as_bytes(std::span(bits))).hex()};
}

}  // namespace

std::string BenchCase::name() const {
  return fmt::format("{}{}{}{}", kind == Kind::prefill ? "pp" : "tg", tokens, streams > 1 ? fmt::format("x{}{}", streams, same_text ? "same" : "") : "",
                     depth > 0 ? fmt::format("@d{}", depth) : "");
}

std::int32_t BenchCase::drawn(std::int32_t chunk_rows) const {
  if (kind == Kind::prefill) return 1;
  const std::int32_t prompts = streams * std::max(depth, 1);
  return tokens + 1 + (streams > 1 ? (prompts + chunk_rows - 1) / chunk_rows : 0);
}

std::int32_t BenchCase::positions(std::int32_t chunk_rows) const {
  return kind == Kind::prefill ? depth + tokens + 1 : std::max(depth, 1) + drawn(chunk_rows);
}

std::vector<std::int32_t> bench_tokens(std::int32_t count, std::int32_t vocab, std::int32_t stream) {
  const Philox random{kPromptKey + static_cast<std::uint64_t>(stream)};
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<std::int32_t>(random.block(static_cast<std::uint64_t>(i))[0] % static_cast<std::uint32_t>(vocab)));
  }
  return ids;
}

Result<BenchSample> run_bench_case(Engine& engine, const BenchCase& bench, std::int32_t chunk_rows, const std::function<bool()>& go_on) {
  if (bench.streams > 1) return run_streams(engine, bench, chunk_rows, go_on);
  const bool prefill = bench.kind == BenchCase::Kind::prefill;
  const std::int32_t prompt = prefill ? bench.depth + bench.tokens : std::max(bench.depth, 1);
  const Request request{.prompt_ids = bench_tokens(prompt, engine.info().vocab),
                        .max_tokens = bench.drawn(chunk_rows),
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
  return BenchSample{bench.tokens / seconds, unix_seconds(to), fingerprint_of(drawn, digests)};
}

}  // namespace plumb::app
