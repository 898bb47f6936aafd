// The conformance suite: every loop through the same workloads, every clause checked on the way, every tracked write deleted.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "serve/conformance/world.h"

namespace plumb::conformance {

// Called as work is done: `done` of `total`.
using ProgressFn = std::function<void(std::uint64_t done, std::uint64_t total)>;
// Asked between workloads; true ends the run early.
using StopFn = std::function<bool()>;

struct LoopReport {
  std::string loop;
  std::uint64_t workloads = 0;
  std::array<std::uint64_t, kClauseCount> checks{};
  std::array<std::uint64_t, kClauseCount> violations{};
  std::vector<Violation> first;  // of each failing workload, with the seed in front
  std::vector<std::uint64_t> failing_seeds;
  Happened happened;
  Tracker::Counts reads{};
  Tracker::Counts writes{};
  bool recurrent = false;
  std::vector<std::string> rules_broken;  // accesses that the cell rules do not declare
  std::vector<std::string> empty;         // what never happened, and should have
  bool ok() const { return failing_seeds.empty() && rules_broken.empty() && empty.empty(); }
};

// Declared accesses that happened in none of the reports. A rule speaks of all loops together: what only a chain does happens in
// the chained ones. Empty unless a chained loop is among them.
std::vector<std::string> unused_rules(std::span<const LoopReport> reports);

// Runs `count` workloads from `seed` on. Each eighth workload gets a fresh engine; between, prefixes stay. With `judge_rules`
// the accesses are held to the cell rules, and counters that stayed zero are listed.
Result<LoopReport> run_suite(const WorldOptions& options, std::uint64_t seed, std::uint64_t count, bool judge_rules, const ProgressFn& progress,
                             const StopFn& stop);

// One workload on a fresh engine. Returns its violations.
Result<std::vector<Violation>> run_one(const WorldOptions& options, const Workload& workload, Reference& reference);
// The smallest part of a failing workload that still fails.
Workload shrink(const WorldOptions& options, Workload workload, Reference& reference);
std::string describe(const Workload& workload);

struct MutantResult {
  std::string name;       // the write site
  std::string loop;
  std::string kind;       // "delete", "delay", or a historic defect's name
  std::string verdict;    // "killed", "equivalent" (a delay that no read observed), "survived", "never reached"
  std::string clause;     // that killed it
  std::string how;        // what was seen
};

struct MutantReport {
  std::vector<MutantResult> results;
  std::uint64_t killed() const;
  std::uint64_t equivalent() const;
  std::uint64_t total() const { return results.size(); }
  bool ok() const { return killed() + equivalent() == total() && total() > 0; }
};

struct MutantOptions {
  std::uint64_t seed = 1;
  std::uint64_t workloads = 24;   // at most, until the mutant is caught
  std::uint64_t sample = 0;       // only every n-th mutant; 0: all
  bool delays = true;
};

// Every write site that the workloads reach, deleted in each loop (and delayed), one at a time, each in a process of its own.
Result<MutantReport> run_mutants(const WorldOptions& options, const std::vector<std::string>& loops, const MutantOptions& mutants,
                                 const ProgressFn& progress, const StopFn& stop);

}  // namespace plumb::conformance
