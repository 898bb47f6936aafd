// plumb bench: prefill and decode speed at depths, against what the memory gives.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/build_info.h"
#include "base/status.h"
#include "bench_run.h"
#include "device/cpu/int8_rate.h"
#include "device/cpu/read_bandwidth.h"
#include "engine_options.h"
#include "interrupt.h"
#include "progress.h"
#include "serve/engine_impl.h"
#include "verb.h"

namespace plumb::app {
namespace {

struct Options {
  std::string model;
  EngineOptions engine;
  std::vector<std::int32_t> prefill = {64, 512};
  std::vector<std::int32_t> decode = {64};
  std::vector<std::int32_t> depths = {0};
  std::vector<std::int32_t> streams = {1};
  bool same_text = false;
  std::int32_t repeats = 5;
};

constexpr const char* kNotShown =
    "Not shown: quality; real text (the prompt is random tokens, and so are the experts it is sent to); other threads on this machine while\n"
    "it ran.\n";

// How long the memory is read, and bytes are multiplied, before each round. Long enough for several passes.
constexpr double kBandwidthSeconds = 0.3;
constexpr double kProductSeconds = 0.05;

// What the machine gives, measured before every round.
struct Ceilings {
  std::vector<double> read;      // bytes per second
  std::vector<double> products;  // of bytes, per second; 0: this machine has no instruction for them that we know
};

struct Row {
  BenchCase bench;
  std::vector<double> samples;  // tokens per second, in the order they were taken
  std::vector<double> ended;    // when each was: seconds since 1970
  std::string fingerprint;
  bool repeats = true;          // every sample had that fingerprint
  std::uint64_t bytes_per_token = 0;  // decode: declared, at the middle of the stretch

  double rate(double q) const {
    std::vector<double> sorted = samples;
    std::sort(sorted.begin(), sorted.end());
    const double at = q * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<std::size_t>(at);
    const double next = sorted[std::min(below + 1, sorted.size() - 1)];
    return sorted[below] + (next - sorted[below]) * (at - static_cast<double>(below));
  }
  std::uint64_t products_per_token = 0;  // prefill: multiplications declared, at the middle of the stretch
  double products_per_second() const { return rate(0.5) * static_cast<double>(products_per_token); }
  double bytes_per_second() const { return rate(0.5) * static_cast<double>(bytes_per_token); }
};

std::vector<Row> rows_of(const Options& o) {
  std::vector<Row> rows;
  for (const std::int32_t depth : o.depths) {
    for (const std::int32_t tokens : o.prefill) rows.push_back({.bench = {BenchCase::Kind::prefill, tokens, depth}});
    for (const std::int32_t tokens : o.decode) {
      for (const std::int32_t streams : o.streams) rows.push_back({.bench = {BenchCase::Kind::decode, tokens, depth, streams, o.same_text}});
    }
  }
  return rows;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

std::string loop_name(const Engine& engine) { return decode::to_string(engine.impl().core().scheduler().parts().loop); }

nlohmann::ordered_json document(const Options& o, const Engine& engine, const std::vector<Row>& rows, const Ceilings& ceilings) {
  const BuildInfo& build = build_info();
  const auto& device = engine.impl().queue().info();
  nlohmann::ordered_json out = {
      {"model", {{"path", o.model}, {"family", engine.info().family}, {"container", engine.info().container}}},
      {"act", o.engine.act},
      {"kv", o.engine.kv},
      {"loop", loop_name(engine)},
      {"repeats", o.repeats},
      {"read_bytes_per_s", {{"samples", ceilings.read}, {"median", median(ceilings.read)}}},
      {"int8_products_per_s", {{"samples", ceilings.products}, {"median", median(ceilings.products)}}},
      {"build", {{"version", build.version}, {"commit", build.commit}, {"compiler", build.compiler}, {"type", build.build_type}, {"flags", build.flags}}},
      {"system", running_system()},
      {"device", {{"name", device.name}, {"isa", device.isa}, {"threads", device.threads}}}};
  auto& list = out["rows"] = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    nlohmann::ordered_json one = {{"name", row.bench.name()},
                                  {"kind", row.bench.kind == BenchCase::Kind::prefill ? "prefill" : "decode"},
                                  {"tokens", row.bench.tokens},
                                  {"depth", row.bench.depth},
                                  {"streams", row.bench.streams}, {"same_text", row.bench.same_text},
                                  {"tokens_per_s", {{"samples", row.samples}, {"min", row.rate(0)}, {"median", row.rate(0.5)}, {"max", row.rate(1)}}},
                                  {"ended_unix_s", row.ended},
                                  {"fingerprint", row.fingerprint},
                                  {"fingerprint_repeats", row.repeats}};
    if (row.bytes_per_token > 0) {
      one["bytes_per_token"] = row.bytes_per_token;
      one["bytes_per_s"] = row.bytes_per_second();
      one["of_read_bandwidth"] = row.bytes_per_second() / median(ceilings.read);
    }
    if (row.products_per_token > 0) {
      one["products_per_token"] = row.products_per_token;
      one["products_per_s"] = row.products_per_second();
      if (median(ceilings.products) > 0) one["of_int8_products"] = row.products_per_second() / median(ceilings.products);
    }
    list.push_back(std::move(one));
  }
  out["not_shown"] = kNotShown;
  return out;
}

std::string text(const Options& o, const Engine& engine, const std::vector<Row>& rows, const Ceilings& ceilings) {
  const BuildInfo& build = build_info();
  const auto& device = engine.impl().queue().info();
  std::string out = fmt::format("model   {} ({}), activations {}, KV {}, loop {}\n", o.model, engine.info().family, o.engine.act, o.engine.kv,
                                loop_name(engine));
  out += fmt::format("build   plumb {} {}, {}, {}\n", build.version, build.commit, build.compiler, build.build_type);
  out += fmt::format("system  {}; {}, {}, {} threads\n", running_system(), device.name, device.isa, device.threads);
  out += fmt::format("memory  read at {:.1f} GB/s by {} threads (median of {})\n", median(ceilings.read) * 1e-9, device.threads, ceilings.read.size());
  if (median(ceilings.products) > 0) out += fmt::format("bytes   multiplied at {:.0f} G/s in registers\n", median(ceilings.products) * 1e-9);
  out += fmt::format("\n{:<14} {:>9} {:>9} {:>9}  {:>10} {:>8} {:>6}  {}\n", "tokens/s", "min", "median", "max", "per token", "per s", "of it", "fingerprint");
  for (const Row& row : rows) {
    std::string memory = fmt::format("{:>10} {:>8} {:>6}", "", "", "");
    if (row.bytes_per_token > 0) {
      memory = fmt::format("{:>10} {:>5.1f} GB {:>5.0f}%", bytes_text(row.bytes_per_token), row.bytes_per_second() * 1e-9,
                           100 * row.bytes_per_second() / median(ceilings.read));
    } else if (row.products_per_token > 0 && median(ceilings.products) > 0) {
      memory = fmt::format("{:>8.3g} G {:>6.1f} G {:>5.0f}%", static_cast<double>(row.products_per_token) * 1e-9, row.products_per_second() * 1e-9,
                           100 * row.products_per_second() / median(ceilings.products));
    }
    out += fmt::format("{:<14} {:>9.1f} {:>9.1f} {:>9.1f}  {}  {}{}\n", row.bench.name(), row.rate(0), row.rate(0.5), row.rate(1), memory,
                       row.fingerprint.substr(0, 16), row.repeats ? "" : "  NOT THE SAME IN EVERY SAMPLE");
  }
  return out + "\n" + kNotShown;
}

Result<ExitCode> bench(const Options& o, Console& console) {
  const InterruptGuard guard;
  std::vector<Row> rows = rows_of(o);
  if (rows.empty()) return usage_error("-p", "nothing to measure: give -p or -n");
  EngineOptions options = o.engine;
  for (const Row& row : rows) {
    // The pool of pages is one context, and all streams of a row share it; each may leave a page half empty.
    options.context = std::max(options.context, row.bench.streams * (row.bench.positions(options.chunk_rows) + 15) / 16 * 16);
    options.max_requests = std::max(options.max_requests, row.bench.streams);
    options.logit_rows = std::max(options.logit_rows, row.bench.streams);
  }
  // A sample must compute its prompt again, and a prefill at a depth must find a step that ends there.
  options.prefix_cache = false;
  for (const std::int32_t depth : o.depths) {
    if (depth % options.chunk_rows != 0 && !o.prefill.empty()) {
      return usage_error("-d", fmt::format("must be a multiple of {}, the rows of a step, to time a prefill after it", options.chunk_rows),
                         std::to_string(depth));
    }
  }
  PLUMB_ASSIGN(Engine engine, Engine::open(o.model, options));
  const int threads = engine.impl().queue().info().threads;
  for (Row& row : rows) {
    if (row.bench.kind == BenchCase::Kind::prefill) {
      row.products_per_token = engine.impl().executor().declared_cost(row.bench.depth + row.bench.tokens / 2, false).flops / 2;
      continue;
    }
    if (row.bench.streams > 1) continue;
    const std::int32_t middle = std::max(row.bench.depth, 1) + row.bench.tokens / 2;
    const device::Cost cost = engine.impl().executor().declared_cost(middle);
    row.bytes_per_token = cost.bytes_read + cost.bytes_written;
  }

  const auto go_on = [&] { return !guard.interrupted(); };
  Progress progress("bench", static_cast<std::uint64_t>(o.repeats + 1) * rows.size(), console.quiet, "samples");
  std::uint64_t done = 0;
  Ceilings ceilings;
  PLUMB_ASSIGN(const device::ReadBandwidth reading, device::ReadBandwidth::open(threads));
  // Rounds over all rows, so that a machine that slows down does so for all of them. The first round warms up and is not kept.
  for (std::int32_t round = -1; round < o.repeats; ++round) {
    if (round >= 0) {
      PLUMB_ASSIGN(const double rate, reading.measure(kBandwidthSeconds));
      ceilings.read.push_back(rate);
      PLUMB_ASSIGN(const double products, device::measure_int8_rate(threads, kProductSeconds));
      ceilings.products.push_back(products);
    }
    for (Row& row : rows) {
      PLUMB_ASSIGN(const BenchSample sample, run_bench_case(engine, row.bench, options.chunk_rows, go_on));
      progress.update(++done);
      if (row.fingerprint.empty()) row.fingerprint = sample.fingerprint;
      row.repeats = row.repeats && row.fingerprint == sample.fingerprint;
      if (round < 0) continue;
      row.samples.push_back(sample.tokens_per_second);
      row.ended.push_back(sample.ended);
    }
  }
  PLUMB_TRY(engine.impl().checkpoint().verify_unchanged());
  progress.finish();
  if (console.json) {
    console.print_json(document(o, engine, rows, ceilings));
  } else {
    console.print(text(o, engine, rows, ceilings));
  }
  const bool same = std::all_of(rows.begin(), rows.end(), [](const Row& row) { return row.repeats; });
  return same ? ExitCode::ok : ExitCode::verdict;
}

}  // namespace

Action add_bench(CLI::App& command) {
  const auto o = std::make_shared<Options>();
  add_engine_options(command, o->model, o->engine);
  command.remove_option(command.get_option("--ctx"));  // what the rows need
  const auto list = [&](const char* name, std::vector<std::int32_t>& values, const char* help, int least) {
    command.add_option(name, values, help)->delimiter(',')->check(CLI::Range(least, 1 << 20))->capture_default_str();
  };
  list("-p,--prefill", o->prefill, "prompt lengths to time; 0: none", 0);
  list("-n,--decode", o->decode, "numbers of tokens to generate and time; 0: none", 0);
  list("-s,--streams", o->streams, "requests that draw together, for each of -n", 1);
  list("-d,--depth", o->depths, "positions that come before what is timed", 0);
  command.add_flag("--same-text", o->same_text, "several streams: all of one text, so that their rows choose the same experts");
  command.add_option("-r,--repeats", o->repeats, "samples of each row, taken in rounds")->check(CLI::Range(1, 1000))->capture_default_str();
  command.add_option("--chunk", o->engine.chunk_rows, "prompt rows of one step")->check(CLI::Range(1, 4096))->capture_default_str();
  return [o](Console& console) {
    for (auto* values : {&o->prefill, &o->decode}) std::erase(*values, 0);
    return bench(*o, console);
  };
}

}  // namespace plumb::app
