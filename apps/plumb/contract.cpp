// plumb contract: the clauses, the suite that checks them, and the mutants that check the suite.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "contract_exits.h"
#include "contract_lattice.h"
#include "decode/contract/contract.h"
#include "decode/loop.h"
#include "interrupt.h"
#include "progress.h"
#include "serve/conformance/suite.h"
#include "verb.h"

namespace plumb::app {
namespace {

using conformance::LoopReport;
using conformance::MutantReport;
using conformance::WorldOptions;

// Fewer workloads do not reach everything that the rules and counters speak of.
constexpr std::uint64_t kEnoughToJudge = 60;

struct Options {
  std::string model;
  bool check = false;
  bool mutants = false;
  bool exits = false;
  bool lattice = false;
  bool markdown = false;
  bool accesses = false;
  std::uint64_t seed = 1;
  std::uint64_t workloads = 200;
  std::uint64_t sample = 0;
  std::int64_t replay = -1;
  std::vector<std::string> loops{"standard", "chained:4"};
  WorldOptions world;
};

std::string clause_table() {
  std::string text;
  for (const decode::Clause& c : decode::clauses()) text += fmt::format("{:<4} {}\n     readers: {}\n     checked: {}\n", c.id, c.obligation, c.readers, c.check);
  return text;
}

nlohmann::ordered_json to_document(const LoopReport& r) {
  nlohmann::ordered_json clauses = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < conformance::kClauseCount; ++i) {
    clauses[decode::clauses()[i].id] = {{"checks", r.checks[i]}, {"violations", r.violations[i]}};
  }
  nlohmann::ordered_json happened = nlohmann::ordered_json::object();
  for (const auto& [name, count] : r.happened.list()) happened[name] = count;
  nlohmann::ordered_json violations = nlohmann::ordered_json::array();
  for (const auto& v : r.first) violations.push_back({{"clause", v.clause}, {"what", v.what}});
  return {{"loop", r.loop}, {"workloads", r.workloads}, {"ok", r.ok()}, {"clauses", clauses}, {"happened", happened},
          {"violations", violations}, {"rules_broken", r.rules_broken}, {"never_happened", r.empty}};
}

std::string to_text(const LoopReport& r) {
  std::string text = fmt::format("loop {}: {} workloads\n\nclause     checks  violations\n", r.loop, r.workloads);
  for (std::size_t i = 0; i < conformance::kClauseCount; ++i) {
    text += fmt::format("{:<6} {:>10} {:>11}\n", decode::clauses()[i].id, r.checks[i], r.violations[i]);
  }
  text += "\nwhat happened\n";
  for (const auto& [name, count] : r.happened.list()) text += fmt::format("  {:<20} {:>10}\n", name, count);
  for (const auto& v : r.first) text += fmt::format("VIOLATED {}: {}\n", v.clause, v.what);
  for (const std::string& rule : r.rules_broken) text += "RULE " + rule + "\n";
  for (const std::string& name : r.empty) text += "NEVER HAPPENED " + name + "\n";
  text += fmt::format("{}: {}\n\n", r.loop, r.ok() ? "clean" : "NOT CLEAN");
  return text;
}

// Which accesses there were, as rows for decode/contract/rules.cpp.
std::string accesses_text(const LoopReport& r) {
  const auto names = [](const auto& counts) {
    std::string text;
    for (std::size_t a = 0; a < kActivityCount; ++a) {
      if (counts[a] > 0) text += fmt::format("{}{}", text.empty() ? "" : ", ", kActivityNames[a]);
    }
    return text;
  };
  std::string text;
  for (std::size_t c = 0; c < kCellCount; ++c) text += fmt::format("{} writes {{{}}} reads {{{}}}\n", kCellNames[c], names(r.writes[c]), names(r.reads[c]));
  return text;
}

Result<ExitCode> check(const Options& o, Console& console) {
  const InterruptGuard guard;
  nlohmann::ordered_json document = nlohmann::ordered_json::array();
  bool ok = true;
  std::vector<LoopReport> reports;
  for (const std::string& loop : o.loops) {
    WorldOptions world = o.world;
    world.model = o.model;
    world.loop = loop;
    Progress progress("contract " + loop, o.workloads, console.quiet || console.json, "workloads");
    PLUMB_ASSIGN(const LoopReport report, conformance::run_suite(world, o.seed, o.workloads, o.workloads >= kEnoughToJudge, [&](std::uint64_t done, std::uint64_t) { progress.update(done); },
                                                                 [&] { return guard.interrupted(); }));
    if (guard.interrupted()) return interrupted_error();
    progress.finish();
    ok = ok && report.ok();
    if (console.json) {
      document.push_back(to_document(report));
    } else {
      console.print(to_text(report));
      if (o.accesses) console.print(accesses_text(report));
      for (const std::uint64_t seed : report.failing_seeds) {
        console.print(fmt::format("replay: plumb contract {} --replay {} --loops {}\n", o.model, seed, loop));
      }
    }
    reports.push_back(report);
  }
  const std::vector<std::string> unused = o.workloads >= kEnoughToJudge ? conformance::unused_rules(reports) : std::vector<std::string>{};
  ok = ok && unused.empty();
  for (const std::string& rule : unused) {
    if (!console.json) console.print("RULE " + rule + "\n");
  }
  if (console.json) console.print_json({{"model", o.model}, {"seed", o.seed}, {"ok", ok}, {"loops", document}, {"unused_rules", unused}});
  return ok ? ExitCode::ok : ExitCode::verdict;
}

Result<ExitCode> replay(const Options& o, Console& console) {
  bool ok = true;
  for (const std::string& loop : o.loops) {
    WorldOptions world = o.world;
    world.model = o.model;
    world.loop = loop;
    PLUMB_ASSIGN(const auto reference, conformance::Reference::open(world));
    const conformance::Workload workload = conformance::make_workload(static_cast<std::uint64_t>(o.replay), world, *reference);
    PLUMB_ASSIGN(const auto violations, conformance::run_one(world, workload, *reference));
    if (violations.empty()) {
      console.print(fmt::format("{}: seed {} on a fresh engine is clean\n", loop, o.replay));
      continue;
    }
    ok = false;
    const conformance::Workload small = conformance::shrink(world, workload, *reference);
    PLUMB_ASSIGN(const auto still, conformance::run_one(world, small, *reference));
    console.print(fmt::format("{}: seed {} breaks {}: {}\nsmallest part that fails ({}: {}):\n{}", loop, o.replay, violations.front().clause, violations.front().what,
                              still.front().clause, still.front().what, conformance::describe(small)));
  }
  return ok ? ExitCode::ok : ExitCode::verdict;
}

Result<ExitCode> mutants(const Options& o, Console& console) {
  const InterruptGuard guard;
  WorldOptions world = o.world;
  world.model = o.model;
  std::unique_ptr<Progress> progress;
  const auto on_progress = [&](std::uint64_t done, std::uint64_t total) {
    if (progress == nullptr) progress = std::make_unique<Progress>("mutants", total, console.quiet || console.json, "mutants");
    progress->update(done);
  };
  PLUMB_ASSIGN(const MutantReport report, conformance::run_mutants(world, o.loops, {.seed = o.seed, .workloads = o.workloads, .sample = o.sample}, on_progress,
                                                                   [&] { return guard.interrupted(); }));
  if (guard.interrupted()) return interrupted_error();
  if (progress != nullptr) progress->finish();
  if (console.json) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const auto& r : report.results) {
      rows.push_back({{"site", r.name}, {"loop", r.loop}, {"kind", r.kind}, {"verdict", r.verdict}, {"clause", r.clause}, {"how", r.how}});
    }
    console.print_json({{"model", o.model}, {"ok", report.ok()}, {"total", report.total()}, {"killed", report.killed()}, {"equivalent", report.equivalent()}, {"mutants", rows}});
  } else {
    for (const auto& r : report.results) {
      console.print(fmt::format("{:<12} {:<10} {:<9} {:<4} {}  [{}]\n", r.verdict, r.loop, r.kind, r.clause, r.name, r.how));
    }
    console.print(fmt::format("{} of {} killed, {} delays that no read observes; score {}\n", report.killed(), report.total(), report.equivalent(),
                              report.ok() ? "100%" : "BELOW 100%"));
  }
  return report.ok() ? ExitCode::ok : ExitCode::verdict;
}

Result<ExitCode> contract(const Options& o, Console& console) {
  if (o.markdown && !o.lattice) {
    console.print(decode::contract_markdown());
    return ExitCode::ok;
  }
  if (!o.check && !o.mutants && !o.exits && !o.lattice && o.replay < 0) {
    if (!console.json) {
      console.print(clause_table());
      return ExitCode::ok;
    }
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const decode::Clause& c : decode::clauses()) {
      rows.push_back({{"id", c.id}, {"obligation", c.obligation}, {"readers", c.readers}, {"broken", c.broken}, {"check", c.check}});
    }
    console.print_json({{"clauses", rows}});
    return ExitCode::ok;
  }
  if (o.model.empty()) return usage_error("MODEL", "is needed to check anything");
  for (const std::string& loop : o.loops) {
    if (const auto parsed = decode::parse_loop(loop); !parsed.ok()) return usage_error("--loops", parsed.error().message, loop);
  }
  if (o.lattice) return print_lattice(o.model, o.markdown, console);
  if (o.exits) return print_exit_matrix(o.model, o.loops, console);
  if (o.replay >= 0) return replay(o, console);
  return o.check ? check(o, console) : mutants(o, console);
}

}  // namespace

Action add_contract(CLI::App& command) {
  const auto o = std::make_shared<Options>();
  command.add_option("MODEL", o->model, "a folder in Hugging Face layout, a .safetensors or a .gguf file");
  auto* check = command.add_flag("--check", o->check, "run seeded workloads through each loop and check every clause on the way");
  auto* mutants = command.add_flag("--mutants", o->mutants, "delete and delay every tracked write, one at a time: each must be caught by a clause");
  auto* exits = command.add_flag("--exits", o->exits, "strike every exit in every phase of a request and look for residue");
  auto* lattice = command.add_flag("--lattice", o->lattice, "run one request in many ways: what is equal to what, and where the first difference is");
  command.add_flag("--markdown", o->markdown, "print docs/CONTRACT.md; with --lattice, docs/EQUALITY.md");
  command.add_option("--replay", o->replay, "run the workload of one seed on a fresh engine; when it fails, shrink it")->excludes(check)->excludes(mutants);
  command.add_option("--seed", o->seed, "of the first workload")->capture_default_str();
  command.add_option("--workloads", o->workloads, "how many; for --mutants: at most, until the mutant is caught")->check(CLI::PositiveNumber)->capture_default_str();
  command.add_option("--loops", o->loops, "decode loops to check")->delimiter(',')->allow_extra_args(false)->capture_default_str();
  command.add_option("--sample", o->sample, "every n-th mutant only; 0: all")->capture_default_str();
  command.add_flag("--accesses", o->accesses, "with --check: list which cells were written and read by which activity");
  command.add_option("--requests", o->world.max_requests, "requests computed together")->check(CLI::Range(1, 64))->capture_default_str();
  command.add_option("--pool-pages", o->world.pool_pages, "pages of 16 positions in the full-attention pools")->check(CLI::PositiveNumber)->capture_default_str();
  check->excludes(mutants);
  exits->excludes(check)->excludes(mutants);
  lattice->excludes(check)->excludes(mutants)->excludes(exits);
  return [o](Console& console) { return contract(*o, console); };
}

}  // namespace plumb::app
