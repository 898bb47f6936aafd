// plumb batch: a file of requests through the engine, a file of results.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/status.h"
#include "batch_file.h"
#include "batch_run.h"
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
  SamplingOptions sampling;
  std::string input;
  std::string output;
  bool retry = false;
  bool no_system = false;
  std::string effort = "medium";
  BatchDefaults defaults;
};

// What the end of a run says.
struct Report {
  std::uint64_t lines = 0;   // of the input
  std::uint64_t before = 0;  // that had a result already
  std::uint64_t errors_before = 0;
  std::uint64_t torn_bytes = 0;
  BatchTotals totals;
  double seconds = 0;
  bool interrupted = false;

  std::uint64_t left() const { return lines - before - totals.done - totals.failed; }
};

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1) + 0.5)];
}

double rate(std::uint64_t count, double seconds) { return per_second(static_cast<double>(count), seconds * 1000); }

nlohmann::ordered_json spread(const std::vector<double>& values) {
  return {{"p10", quantile(values, 0.1)}, {"median", quantile(values, 0.5)}, {"p90", quantile(values, 0.9)}};
}

nlohmann::ordered_json document(const Options& o, const Engine& engine, const Sampling& sampling, const Report& r) {
  const BatchTotals& t = r.totals;
  return {{"model", o.model},
          {"input", o.input},
          {"output", o.output},
          {"lines", r.lines},
          {"before", r.before},
          {"done", t.done},
          {"failed", t.failed},
          {"errors", t.failed + r.errors_before},
          {"left", r.left()},
          {"interrupted", r.interrupted},
          {"torn_bytes", r.torn_bytes},
          {"answers", t.answers},
          {"prompt_tokens", t.prompt_tokens},
          {"cached_tokens", t.cached_tokens},
          {"rebuilt_tokens", t.rebuilt_tokens},
          {"matched_tokens", t.matched_tokens},
          {"tokens", t.tokens},
          {"retractions", t.retractions},
          {"seconds", r.seconds},
          {"tokens_per_s", rate(t.tokens, r.seconds)},
          {"first_token_ms", spread(t.first_token_ms)},
          {"request_tokens_per_s", spread(t.tokens_per_s)},
          {"sampling",
           {{"temperature", sampling.temperature}, {"top_p", sampling.top_p}, {"top_k", sampling.top_k}, {"min_p", sampling.min_p}, {"seed", sampling.seed}}},
          {"loop", o.engine.loop},
          {"parallel", o.engine.max_requests},
          {"threads", engine.impl().queue().info().threads}};
}

std::string summary(const Options& o, const Report& r) {
  const BatchTotals& t = r.totals;
  std::string text = fmt::format("{} lines: {} answered, {} failed", grouped(r.lines), grouped(t.done), grouped(t.failed));
  if (r.before > 0) text += fmt::format(", {} there before ({} of them errors)", grouped(r.before), grouped(r.errors_before));
  if (r.left() > 0) text += fmt::format(", {} left: run it again to go on", grouped(r.left()));
  if (r.torn_bytes > 0) text += fmt::format("; a torn last line of {} was cut off", bytes_text(r.torn_bytes));
  text += fmt::format("\n{} prompt tokens, of which {} cached, {} rebuilt, {} known; {} tokens in {:.1f} s at {:.0f} tokens/s\n",
                      grouped(t.prompt_tokens), grouped(t.cached_tokens), grouped(t.rebuilt_tokens), grouped(t.matched_tokens), grouped(t.tokens),
                      r.seconds, rate(t.tokens, r.seconds));
  if (!t.first_token_ms.empty()) {
    text += fmt::format("a request, median: first token after {:.0f} ms, then {:.0f} tokens/s; {} at a time, {} retractions\n",
                        quantile(t.first_token_ms, 0.5), quantile(t.tokens_per_s, 0.5), o.engine.max_requests, grouped(t.retractions));
  }
  return text;
}

Result<ExitCode> run(const Options& o, Console& console) {
  std::error_code none;
  if (std::filesystem::equivalent(o.input, o.output, none)) return usage_error("-o", "must not be the file that -i names", o.output);
  const InterruptGuard guard;
  PLUMB_ASSIGN(const BatchInput input, BatchInput::open(o.input));
  PLUMB_ASSIGN(Engine engine, Engine::open(o.model, o.engine));
  BatchDefaults defaults = o.defaults;
  PLUMB_ASSIGN(defaults.sampling, sampling_for(o.sampling, engine));
  defaults.system = !o.no_system;
  defaults.effort = *text::reasoning_effort_from(o.effort);
  PLUMB_ASSIGN(BatchResults results, BatchResults::open(o.output, o.retry));

  Report report{.lines = input.lines().size(), .torn_bytes = results.torn_bytes()};
  std::vector<BatchLine> owed;
  for (const BatchLine& line : input.lines()) {
    const auto found = results.find(line.key);
    if (found == BatchResults::Kind::absent) {
      owed.push_back(line);
      continue;
    }
    ++report.before;
    if (found == BatchResults::Kind::error) ++report.errors_before;
  }
  const BatchReader reader(engine, defaults);
  BatchRun batch(engine, reader, input, results, static_cast<std::size_t>(o.engine.max_requests));
  Progress progress(std::filesystem::path(o.input).filename().string(), owed.size(), console.quiet, "requests");
  const Status ran = batch.run(
      owed, [&] { return !guard.interrupted(); }, [&](const BatchTotals& t) { progress.update(t.done + t.failed); });
  report.totals = batch.totals();
  report.seconds = progress.seconds();
  report.interrupted = guard.interrupted() && report.left() > 0;
  PLUMB_TRY(results.sync());
  if (!ran.ok()) return ran.error();
  if (report.left() == 0 && !owed.empty()) progress.finish();
  if (o.engine.checked) PLUMB_TRY(engine.impl().executor().verify());

  if (console.json) {
    console.print_json(document(o, engine, defaults.sampling, report));
  } else {
    console.print(summary(o, report));
  }
  if (report.interrupted) return ExitCode::interrupted;
  return report.totals.failed + report.errors_before > 0 ? ExitCode::failure : ExitCode::ok;
}

}  // namespace

Action add_batch(CLI::App& command) {
  const auto o = std::make_shared<Options>();
  add_engine_options(command, o->model, o->engine);
  command.add_option("-i,--input", o->input, "requests, one JSON object per line: OpenAI's batch form, or {\"id\", \"prompt\" or \"ids\", \"n\", ...}")->required();
  command.add_option("-o,--output", o->output, "results, appended as requests finish; a line that has one here is not run again")->required();
  command.add_option("--parallel", o->engine.max_requests, "requests computed together")->check(CLI::Range(1, 1024))->capture_default_str();
  command.add_flag("--retry", o->retry, "remove the results that are errors first, so that their lines run again");
  command.add_option("-n,--tokens", o->defaults.max_tokens, "tokens of one answer at most, where a line does not say")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_flag("--no-system", o->no_system, "chats: leave out the standard system message");
  command.add_option("--reasoning", o->effort, "chats: how much to think, where a line does not say")
      ->check(CLI::IsMember({"low", "medium", "high"}))
      ->capture_default_str();
  command.add_option("--date", o->defaults.date, "chats: the date that the system message mentions (default: none, so that a run can be repeated)");
  add_sampling_options(command, o->sampling);
  return [o](Console& console) { return run(*o, console); };
}

}  // namespace plumb::app
