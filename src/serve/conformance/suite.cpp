#include "serve/conformance/suite.h"

#include <algorithm>

#include "decode/contract/contract.h"

namespace plumb::conformance {
namespace {

void judge(LoopReport& report, const WorldOptions& options, bool recurrent) {
  for (const decode::CellRule& rule : decode::cell_rules()) {
    const auto c = static_cast<std::size_t>(rule.cell);
    for (std::size_t a = 0; a < kActivityCount; ++a) {
      const auto activity = static_cast<Activity>(a);
      const std::string where = std::string(to_string(rule.cell)) + " in " + std::string(to_string(activity));
      if (report.reads[c][a] > 0 && !rule.readers.has(activity)) report.rules_broken.push_back("undeclared read: " + where);
      if (report.writes[c][a] > 0 && !rule.writers.has(activity)) report.rules_broken.push_back("undeclared write: " + where);
    }
  }
  const bool chained = options.loop != "standard";
  for (const auto& [name, count] : report.happened.list()) {
    if (count > 0) continue;
    const std::string_view n = name;
    if (!chained && (n == "chained steps" || n == "late stops" || n == "late edits" || n == "aborts in a chain")) continue;
    if (chained && n == "aborts in decode") continue;  // between turns a chain is in flight
    if (!recurrent && (n == "state starts" || n == "state hits")) continue;
    if (recurrent && n == "rebuilt windows") continue;
    report.empty.emplace_back(name);
  }
  for (std::size_t i = 0; i < kClauseCount; ++i) {
    const std::string id = decode::clauses()[i].id;
    if (report.checks[i] == 0 && (recurrent || (id != "C23" && id != "C24"))) report.empty.push_back("checks of " + id);
  }
}

void take_in(LoopReport& report, World& world) {
  for (std::size_t i = 0; i < kClauseCount; ++i) report.checks[i] += world.auditor().checks()[i];
  report.happened.add(world.auditor().happened());
  for (std::size_t c = 0; c < kCellCount; ++c) {
    for (std::size_t a = 0; a < kActivityCount; ++a) {
      report.reads[c][a] += world.tracker().reads()[c][a];
      report.writes[c][a] += world.tracker().writes()[c][a];
    }
  }
}

}  // namespace

std::vector<std::string> unused_rules(std::span<const LoopReport> reports) {
  std::vector<std::string> unused;
  if (std::none_of(reports.begin(), reports.end(), [](const LoopReport& r) { return r.happened.chained > 0; })) return unused;
  const bool recurrent = reports.front().recurrent;
  for (const decode::CellRule& rule : decode::cell_rules()) {
    // Recurrent state is only where there are recurrent layers, and a cold window only where there are none.
    if (!recurrent && (rule.clauses.starts_with("C23") || rule.clauses.starts_with("C24"))) continue;
    if (rule.cell == CellId::slots_zero || rule.cell == CellId::sequence_exact_from) continue;  // needs texts longer than all windows in a row
    for (std::size_t a = 0; a < kActivityCount; ++a) {
      const auto activity = static_cast<Activity>(a);
      if (activity == Activity::save) continue;  // sessions are not part of workloads
      // Pages are taken at admission only for cold windows and for recurrent state.
      const bool takes = rule.cell == CellId::pool_free || rule.cell == CellId::tree_snapshot || rule.cell == CellId::clock_launched || rule.cell == CellId::clock_settled;
      if (activity == Activity::admit && takes && !recurrent) continue;
      const auto happened = [&](auto counts) {
        return std::any_of(reports.begin(), reports.end(), [&](const LoopReport& r) { return (r.*counts)[static_cast<std::size_t>(rule.cell)][a] > 0; });
      };
      const std::string where = std::string(to_string(rule.cell)) + " in " + std::string(to_string(activity));
      if (rule.readers.has(activity) && !happened(&LoopReport::reads)) unused.push_back("declared and never read: " + where);
      if (rule.writers.has(activity) && !happened(&LoopReport::writes)) unused.push_back("declared and never written: " + where);
    }
  }
  return unused;
}

Result<LoopReport> run_suite(const WorldOptions& options, std::uint64_t seed, std::uint64_t count, bool judge_rules, const ProgressFn& progress,
                             const StopFn& stop) {
  PLUMB_ASSIGN(const auto reference, Reference::open(options));
  LoopReport report;
  report.loop = options.loop;
  std::unique_ptr<World> world;
  bool recurrent = false;
  for (std::uint64_t i = 0; i < count && !(stop && stop()); ++i) {
    if ((seed + i) % kWorkloadsPerEngine == 0 || world == nullptr) {
      if (world != nullptr) take_in(report, *world);
      PLUMB_ASSIGN(world, World::open(variant_for(options, seed + i), *reference, true));
      recurrent = world->engine().aux() != nullptr;
    }
    world->run(make_workload(seed + i, options, *reference));
    ++report.workloads;
    if (!world->auditor().violations().empty()) {
      const Violation& v = world->auditor().violations().front();
      const int clause = decode::clause_index(v.clause);
      if (clause >= 0) ++report.violations[static_cast<std::size_t>(clause)];
      report.first.push_back({v.clause, "seed " + std::to_string(seed + i) + ": " + v.what});
      report.failing_seeds.push_back(seed + i);
      take_in(report, *world);
      world.reset();  // what a broken engine does next proves nothing
    }
    if (progress) progress(i + 1, count);
  }
  if (world != nullptr) take_in(report, *world);
  report.recurrent = recurrent;
  if (judge_rules) judge(report, options, recurrent);
  return report;
}

Result<std::vector<Violation>> run_one(const WorldOptions& options, const Workload& workload, Reference& reference) {
  PLUMB_ASSIGN(const auto world, World::open(variant_for(options, workload.seed), reference, false));
  world->run(workload);
  return world->auditor().violations();
}

Workload shrink(const WorldOptions& options, Workload workload, Reference& reference) {
  const auto fails = [&](const Workload& w) {
    const auto violations = run_one(options, w, reference);
    return violations.ok() && !violations->empty();
  };
  bool smaller = true;
  while (smaller) {
    smaller = false;
    for (std::size_t i = workload.happenings.size(); i-- > 0;) {
      // Requests keep their numbers: one that is left out stays as a request that ends at once.
      Workload less = workload;
      if (less.happenings[i].deed == Deed::ask) {
        if (less.happenings[i].request.prompt_ids.size() == 1 && less.happenings[i].request.max_tokens == 0) continue;
        less.happenings[i].request = Request{};
        less.happenings[i].request.prompt_ids = {0};
        less.happenings[i].request.max_tokens = 0;
      } else {
        less.happenings.erase(less.happenings.begin() + static_cast<std::ptrdiff_t>(i));
      }
      if (!fails(less)) continue;
      workload = std::move(less);
      smaller = true;
    }
  }
  return workload;
}

std::string describe(const Workload& workload) {
  std::string text;
  for (const Happening& h : workload.happenings) {
    text += "turn " + std::to_string(h.turn) + ": " + to_string(h.deed);
    if (h.deed == Deed::ask) {
      text += " prompt " + std::to_string(h.request.prompt_ids.size()) + " max_tokens " + std::to_string(h.request.max_tokens);
    } else if (h.deed == Deed::abort) {
      text += " of " + std::to_string(h.of);
    } else if (h.deed == Deed::fault || h.deed == Deed::late) {
      text += " " + std::to_string(h.nth);
    }
    text += "\n";
  }
  return text;
}

}  // namespace plumb::conformance
