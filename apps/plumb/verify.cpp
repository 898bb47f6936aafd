// plumb verify: a model against its oracle.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/build_info.h"
#include "base/counter_rng.h"
#include "base/status.h"
#include "engine_options.h"
#include "interrupt.h"
#include "model_outputs.h"
#include "oracle_file.h"
#include "parity_report.h"
#include "progress.h"
#include "verb.h"
#include "verify_exact.h"

namespace plumb::app {
namespace {

struct Options {
  std::string model;
  EngineOptions engine;
  std::string oracle;
  std::string path = "exact";
  std::string record;
  std::string heldout;
  std::uint64_t heldout_tokens = 131072;
  std::int32_t window = 2048;
  bool against_exact = false;
  std::string prompts;
  std::int32_t max_length = 0;
  std::int32_t greedy_tokens = 96;
};

constexpr const char* kNotShown =
    "Not shown: speed; prompts and positions other than these; sampling; requests side by side; other machines,\n"
    "instruction sets or thread counts. Numerical equivalence is not quality.\n";

// Prompts of a recording without an oracle: around the window edges of real models, and up to 2k.
constexpr std::int32_t kRecordLengths[] = {1, 2, 7, 36, 64, 127, 128, 129, 200, 255, 256, 257, 400, 574, 1000, 1500, 2024};
constexpr std::uint64_t kRecordKey = 7;

struct Range {
  std::size_t first = 0, last = ~std::size_t{0};
};

Result<Range> parse_range(const std::string& text) {
  Range range;
  if (text.empty()) return range;
  const auto dash = text.find('-');
  const auto number = [](const std::string& digits) -> std::optional<std::size_t> {
    if (digits.empty() || digits.size() > 9 || digits.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
    return std::stoul(digits);
  };
  const auto first = number(text.substr(0, dash));
  const auto last = dash == std::string::npos ? first : number(text.substr(dash + 1));
  if (!first || !last || *last < *first) return usage_error("--prompts", "must be one number or first-last", text);
  return Range{*first, *last};
}

// A prompt to run: from the oracle (`index` there), or made up.
struct Job {
  std::size_t index = 0;
  PromptTask task;
};

// The first, middle and last position, eight others, and both sides of the window edges.
std::vector<std::int32_t> positions_to_keep(std::size_t prompt, std::int32_t length) {
  std::vector<std::int32_t> keep = {0, length / 2, length - 1};
  for (const std::int32_t edge : {126, 127, 128, 129, 255, 256, 257}) {
    if (edge < length) keep.push_back(edge);
  }
  const Philox random{kRecordKey};
  for (std::uint64_t k = 0; k < 8; ++k) {
    keep.push_back(static_cast<std::int32_t>(random.block(k, prompt + 1)[0] % static_cast<std::uint32_t>(length)));
  }
  std::sort(keep.begin(), keep.end());
  keep.erase(std::unique(keep.begin(), keep.end()), keep.end());
  return keep;
}

std::vector<Job> made_up_jobs(const Options& o, const Range& range, std::int32_t vocab) {
  std::vector<Job> jobs;
  const Philox random{kRecordKey};
  for (std::size_t i = range.first; i <= range.last && i < std::size(kRecordLengths); ++i) {
    const std::int32_t length = kRecordLengths[i];
    if (o.max_length > 0 && length > o.max_length) continue;
    Job job{.index = i, .task = {.ids = {}, .positions = positions_to_keep(i, length), .greedy = o.greedy_tokens}};
    for (std::int32_t t = 0; t < length; ++t) {
      const auto word = random.block(static_cast<std::uint64_t>(t), (i + 1) << 32)[0];
      job.task.ids.push_back(static_cast<std::int32_t>(word % static_cast<std::uint32_t>(vocab)));
    }
    jobs.push_back(std::move(job));
  }
  return jobs;
}

struct Run {
  std::optional<OracleFile> oracle;
  std::vector<std::size_t> chosen;  // prompts of the oracle
  std::vector<std::int32_t> heldout;
  std::int32_t context = 0;
};

// Opens the inputs and finds the context they need, before the model is opened with it.
Result<Run> prepare(const Options& o, const Range& range) {
  Run run;
  if (!o.oracle.empty()) {
    PLUMB_ASSIGN(OracleFile oracle, OracleFile::open(o.oracle));
    for (std::size_t i = range.first; i <= range.last && i < oracle.size(); ++i) {
      if (o.max_length > 0 && oracle.prompt_length(i) > o.max_length) continue;
      run.chosen.push_back(i);
      run.context = std::max(run.context, oracle.prompt_length(i) + oracle.greedy_length(i));
    }
    if (run.chosen.empty()) return usage_error("--prompts", "leaves none of the oracle's " + std::to_string(oracle.size()) + " prompts");
    run.oracle = std::move(oracle);
  } else if (!o.record.empty()) {
    run.context = std::end(kRecordLengths)[-1] + o.greedy_tokens;
  }
  if (!o.heldout.empty()) {
    PLUMB_ASSIGN(run.heldout, read_tokens_u16(o.heldout));
    run.context = std::max(run.context, o.window);
  }
  return run;
}

std::map<std::string, std::string> record_metadata(const Options& o, const Engine::Impl& engine, const std::string& digest,
                                                   std::span<const PromptOutputs> prompts, const ParityReport* checked, const OracleFile* oracle) {
  const BuildInfo& build = build_info();
  std::string layers;
  for (const std::int32_t layer : routed_layers(engine.spec())) layers += (layers.empty() ? "" : ",") + std::to_string(layer);
  std::map<std::string, std::string> out = {
      {"model", engine.info().family},
      {"model_digest", digest},
      {"oracle", fmt::format("plumb {} {}, {} path, float32", build.version, build.commit, o.path)},
      {"toolchain", std::string(build.compiler) + "; " + std::string(build.flags)},
      {"prompts", std::to_string(prompts.size())},
      {"routed_layers", layers}};
  if (checked != nullptr) {  // how this oracle was itself checked
    out["checked_against"] = oracle->digest();
    out["checked_cosine_min"] = fmt::format("{}", checked->cosine_min.value);
    out["checked_max_logit_gap"] = fmt::format("{}", checked->max_abs.value);
  }
  return out;
}

void heldout_reference(ParityReport& report, const OracleFile& oracle) {
  const auto& meta = oracle.metadata();
  const auto nats = meta.find("heldout_nats_" + std::to_string(report.heldout->window));
  const auto tokens = meta.find("heldout_tokens");
  if (nats == meta.end() || tokens == meta.end() || tokens->second != std::to_string(report.heldout->tokens)) return;
  char* end = nullptr;
  const double value = std::strtod(nats->second.c_str(), &end);
  if (end != nats->second.c_str() && *end == 0) report.heldout_reference = value;
}

// The deployment path is held to a budget where it computes something else than the exact one.
bool budgeted(const Options& o) { return o.engine.act != "f32" || o.engine.kv != "f32"; }
QualityBudget budget(const Options& o) { return quality_budget(o.engine.act, o.engine.kv); }
bool passes(const Options& o, const ParityReport& report) {
  return budgeted(o) ? report.pass(budget(o)) : report.pass(ParityLimits{});
}

nlohmann::ordered_json document(const Options& o, const Engine::Impl& engine, const Run& run, const ParityReport& report, const ParityLimits& limits,
                                const std::string& digest) {
  const BuildInfo& build = build_info();
  const auto& device = engine.queue().info();
  nlohmann::ordered_json out = {{"verdict", passes(o, report) ? "PASS" : "FAIL"}};
  out.update(parity_json(report, limits));
  if (budgeted(o)) out["quality"] = quality_json(report, budget(o));
  out["path"] = o.path;
  out["act"] = o.engine.act;
  out["kv"] = o.engine.kv;
  out["model"] = {{"path", o.model}, {"container", engine.info().container}, {"digest", digest}};
  out["oracle"] = nullptr;
  if (run.oracle) out["oracle"] = {{"path", run.oracle->path()}, {"digest", run.oracle->digest()}, {"metadata", run.oracle->metadata()}};
  out["build"] = {{"version", build.version}, {"commit", build.commit}, {"compiler", build.compiler}, {"type", build.build_type},
                  {"flags", build.flags}, {"sanitizers", build.sanitizers}};
  out["system"] = running_system();
  out["device"] = {{"name", device.name}, {"isa", device.isa}, {"threads", device.threads}};
  out["not_shown"] = kNotShown;
  return out;
}

std::string head_text(const Options& o, const Engine::Impl& engine, const Run& run, const std::string& digest) {
  const BuildInfo& build = build_info();
  const auto& device = engine.queue().info();
  std::string out = fmt::format("model      {} ({}, {}), digest {}\n", o.model, engine.info().family, engine.info().container, digest);
  if (run.oracle) {
    out += fmt::format("oracle     {}, digest {}\n", run.oracle->path(), run.oracle->digest());
    for (const auto& [key, value] : run.oracle->metadata()) out += fmt::format("           {} = {}\n", key, value);
  }
  out += fmt::format("path       {}, activations {}, KV {}{}\n", o.path, o.engine.act, o.engine.kv,
                     budgeted(o) ? ": held to the budget of docs/QUALITY.md" : ": float32 throughout");
  out += fmt::format("build      plumb {} {}, {}, {}, {}\n", build.version, build.commit, build.compiler, build.build_type, build.flags);
  out += fmt::format("system     {}; {}, {}, {} threads\n", running_system(), device.name, device.isa, device.threads);
  return out;
}

Result<ExitCode> against_exact(const Options& o, Console& console) {
  if (o.heldout.empty()) return usage_error("--against-exact", "needs a text: --heldout");
  if (o.path != "deploy") return usage_error("--against-exact", "the exact path differs from itself by nothing; --path deploy", o.path);
  if (!o.oracle.empty() || !o.record.empty() || !o.prompts.empty() || o.max_length != 0) {
    return usage_error("--against-exact", "compares a text and no prompts: not with --oracle, --record, --prompts or --max-length");
  }
  KlOptions kl;
  kl.text = o.heldout;
  kl.tokens = static_cast<std::int32_t>(std::min<std::uint64_t>(o.heldout_tokens, std::numeric_limits<std::int32_t>::max()));
  kl.window = o.window;
  kl.engine = o.engine;
  kl.act = o.engine.act;
  kl.kv = o.engine.kv;
  kl.tokens_option = "--heldout-tokens";
  kl.window_option = "--window";
  kl.identify = true;
  kl.quiet = console.quiet;
  return verify_against_exact(o.model, kl, console);
}

Result<ExitCode> verify(const Options& o, Console& console) {
  if (o.against_exact) return against_exact(o, console);
  if (o.oracle.empty() && o.record.empty() && o.heldout.empty()) {
    return usage_error("--oracle", "one of --oracle, --record and --heldout is needed");
  }
  if (budgeted(o) && o.path != "deploy") {
    const bool act = o.engine.act != "f32";
    return usage_error(act ? "--act" : "--kv", "the exact path is float32; --path deploy verifies what others compute", act ? o.engine.act : o.engine.kv);
  }
  const InterruptGuard guard;
  PLUMB_ASSIGN(const Range range, parse_range(o.prompts));
  PLUMB_ASSIGN(Run run, prepare(o, range));
  Engine::Impl::OpenOptions open{.engine = o.engine, .trace_routing = true};
  open.engine.context = run.context + 1;
  open.engine.prefix_cache = false;  // every prompt from the start: an oracle knows no history
  PLUMB_ASSIGN(const std::unique_ptr<Engine::Impl> impl, Engine::Impl::open(o.model, open));
  Engine::Impl& engine = *impl;
  const std::int32_t vocab = engine.info().vocab;

  std::vector<Job> jobs;
  if (!run.oracle && !o.record.empty()) jobs = made_up_jobs(o, range, vocab);
  std::vector<PromptOutputs> expected;
  for (const std::size_t i : run.chosen) {
    PLUMB_ASSIGN(PromptOutputs prompt, run.oracle->prompt(i, vocab));
    jobs.push_back({i, {prompt.ids, prompt.positions, static_cast<std::int32_t>(prompt.greedy.size())}});
    expected.push_back(std::move(prompt));
  }

  std::uint64_t total = 0, done = 0;
  for (const Job& job : jobs) total += job.task.ids.size() + static_cast<std::uint64_t>(job.task.greedy);
  if (!o.heldout.empty()) total += std::min<std::uint64_t>(o.heldout_tokens, run.heldout.size());
  Progress progress("verify", total, console.quiet, "tokens");
  const auto on_step = [&](std::int32_t positions) {
    progress.update(done + static_cast<std::uint64_t>(std::max(positions, 0)));
    return !guard.interrupted();
  };

  ParityReport report(routed_layers(engine.spec()));
  std::vector<PromptOutputs> recorded;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    PLUMB_ASSIGN(PromptOutputs ours, run_prompt(engine, jobs[j].task, on_step));
    done += jobs[j].task.ids.size() + static_cast<std::uint64_t>(jobs[j].task.greedy);
    if (run.oracle) report.add(jobs[j].index, expected[j], ours);
    if (!o.record.empty()) recorded.push_back(std::move(ours));
  }
  if (!o.heldout.empty()) {
    PLUMB_ASSIGN(report.heldout, run_heldout(engine, run.heldout, o.heldout_tokens, o.window, on_step));
    if (run.oracle) heldout_reference(report, *run.oracle);
  }
  PLUMB_TRY(engine.checkpoint().verify_unchanged());
  if (o.engine.checked) PLUMB_TRY(engine.executor().verify());
  const std::string digest = model_digest(engine.checkpoint());
  progress.finish();

  if (!o.record.empty()) {
    const auto metadata = record_metadata(o, engine, digest, recorded, run.oracle ? &report : nullptr, run.oracle ? &*run.oracle : nullptr);
    PLUMB_TRY(write_oracle(o.record, recorded, vocab, metadata));
  }
  const ParityLimits limits;
  const bool pass = passes(o, report);
  if (console.json) {
    console.print_json(document(o, engine, run, report, limits, digest));
    return pass ? ExitCode::ok : ExitCode::verdict;
  }
  console.print(head_text(o, engine, run, digest));
  console.print(budgeted(o) ? quality_text(report, budget(o)) : parity_text(report, limits));
  if (!o.record.empty()) console.print(fmt::format("recorded   {}: {} prompts\n", o.record, recorded.size()));
  if (run.oracle || report.heldout_reference) console.print(fmt::format("{}\n", pass ? "PASS" : "FAIL"));
  console.print(kNotShown);
  return pass ? ExitCode::ok : ExitCode::verdict;
}

}  // namespace

Action add_verify(CLI::App& command) {
  const auto o = std::make_shared<Options>();
  o->engine.logit_rows = 64;  // a compromise: held-out text wants every row, and a row of a 200k vocabulary is 0.8 MB
  add_engine_options(command, o->model, o->engine);
  command.remove_option(command.get_option("--ctx"));  // the oracle says how long its prompts are
  CLI::Option* act = command.get_option("--act")->description("activations of quantised products: f32 on the exact path; --path deploy: q8, or f32");
  command.add_option("--oracle", o->oracle, "reference outputs (docs/FORMATS.md)");
  command.add_option("--path", o->path, "which computation is verified")->check(CLI::IsMember({"exact", "deploy"}))->capture_default_str();
  command.add_option("--record", o->record, "write what this path computes as an oracle file; without --oracle, for made-up prompts to 2k");
  command.add_option("--heldout", o->heldout, "token ids (little-endian 16 bit): report nats per token over fresh windows");
  command.add_option("--heldout-tokens", o->heldout_tokens, "from the start of that file")->check(CLI::PositiveNumber)->capture_default_str();
  command.add_option("--window", o->window, "tokens of one held-out window")->check(CLI::Range(1, 1 << 17))->capture_default_str();
  command.add_flag("--against-exact", o->against_exact, "hold every position of the held-out text to the budget, against the exact path of the same file");
  command.add_option("--prompts", o->prompts, "only these prompts: 3, or 0-11");
  command.add_option("--max-length", o->max_length, "leave out longer prompts; 0: none")->check(CLI::NonNegativeNumber)->capture_default_str();
  command.add_option("--greedy-tokens", o->greedy_tokens, "steps of the greedy text of a recording without --oracle")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command.add_option("--chunk", o->engine.chunk_rows, "prompt rows of one step")->check(CLI::Range(1, 4096))->capture_default_str();
  return [o, act](Console& console) {
    if (act->count() == 0 && o->path == "exact") o->engine.act = "f32";
    return verify(*o, console);
  };
}

}  // namespace plumb::app
