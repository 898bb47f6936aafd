// Mutants: each in a process of its own, since a broken engine may do anything, also hang or crash. What it dies of is its verdict.
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <set>

#include "base/check.h"
#include "base/status.h"
#include "decode/contract/contract.h"
#include "serve/conformance/suite.h"

namespace plumb::conformance {
namespace {

// Where the child says what it saw; a check handler can reach nothing but statics.
int report_fd = -1;

void say(const std::string& text) {
  if (::write(report_fd, text.data(), text.size()) < 0) ::_exit(1);
}

[[noreturn]] void on_check(const char* file, int line, const char* expression) {
  std::string_view path = file;
  const auto at = path.rfind("src/");
  if (at != std::string_view::npos) path = path.substr(at + 4);
  say("guard\n" + std::string(path) + ":" + std::to_string(line) + " " + expression + "\n");
  ::_exit(0);
}

std::string first_clause(CellId cell) {
  const std::string_view all = decode::cell_rules()[static_cast<std::size_t>(cell)].clauses;
  return std::string(all.substr(0, all.find(' ')));
}

struct Mutant {
  std::string name;
  std::string kind;
  WriteSite site;
  CellObserver::Verdict verdict;
  bool chained_only = false;  // only while a step is in flight
  bool mixed_only = false;    // only while prompts are computed beside decoding
};

// Runs workloads until something is wrong; tells what on `report_fd`. Never returns.
[[noreturn]] void live(const WorldOptions& options, Reference& reference, const Mutant& mutant, const MutantOptions& o) {
  set_check_handler(&on_check);
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE}) std::signal(signal, SIG_DFL);
  ::alarm(static_cast<unsigned>(10 + 2 * o.workloads));  // a workload takes well below a second
  std::uint64_t mutated = 0;
  std::uint64_t stale = 0;
  std::vector<std::unique_ptr<World>> survivors;  // never taken apart: who knows what a mutated engine would do
  for (std::uint64_t i = 0; i < o.workloads; i += 4) {
    auto world = World::open(variant_for(options, o.seed + i), reference, true);
    if (!world.ok()) ::_exit(1);
    Auditor& auditor = (*world)->auditor();
    const Scheduler& scheduler = (*world)->engine().core().scheduler();
    Mutation mutation{mutant.site, mutant.verdict, {}};
    if (mutant.chained_only) mutation.when = [&auditor] { return auditor.in_flight() > 0; };
    if (mutant.mixed_only) {
      mutation.when = [&scheduler] {
        return std::any_of(scheduler.peek_running().begin(), scheduler.peek_running().end(), [](const RequestState* r) {
          return r->track.peek()->launched.peek() < r->track.peek()->extend_end;
        });
      };
    }
    (*world)->tracker().mutate(std::move(mutation));
    for (std::uint64_t w = i; w < std::min(i + 4, o.workloads); ++w) {
      (*world)->run(make_workload(o.seed + w, options, reference));
      if (auditor.violations().empty()) continue;
      say(auditor.violations().front().clause + "\n" + auditor.violations().front().what + "\n");
      ::_exit(0);
    }
    mutated += (*world)->tracker().mutated();
    stale += (*world)->tracker().stale_reads();
    survivors.push_back(std::move(*world));
  }
  say("-\n" + std::to_string(mutated) + " " + std::to_string(stale) + "\n");
  ::_exit(0);
}

MutantResult judge(const Mutant& mutant, const std::string& loop, int status, const std::string& said) {
  MutantResult r{mutant.name, loop, mutant.kind, "killed", "", ""};
  const auto end = said.find('\n');
  const std::string clause = said.substr(0, end);
  if (end != std::string::npos) r.how = said.substr(end + 1, said.find('\n', end + 1) - end - 1);
  if (WIFSIGNALED(status)) {
    // Nothing was wrong that a check could see before the program was: the clause is that of the cell.
    r.clause = WTERMSIG(status) == SIGALRM ? "C25" : first_clause(mutant.site.cell);
    r.how = WTERMSIG(status) == SIGALRM ? "the workload hangs" : "signal " + std::to_string(WTERMSIG(status));
  } else if (clause == "guard") {
    r.clause = first_clause(mutant.site.cell);
    r.how = "guard " + r.how;
  } else if (clause == "-") {
    unsigned long long mutated = 0;
    unsigned long long stale = 0;
    if (std::sscanf(r.how.c_str(), "%llu %llu", &mutated, &stale) != 2) mutated = 0;
    if (mutated == 0) {
      r.verdict = "never reached";
      r.how = "the workloads do not write there";
    } else if (mutant.verdict == CellObserver::Verdict::delay && stale == 0) {
      r.verdict = "equivalent";
      r.how = std::to_string(mutated) + " writes held back, none read before it came";
    } else {
      r.verdict = "survived";
      r.how = std::to_string(mutated) + " writes changed, " + std::to_string(stale) + " stale reads";
    }
  } else if (decode::clause_index(clause) >= 0) {
    r.clause = clause;
  } else {
    r.verdict = "survived";
    r.how = "the process said nothing: status " + std::to_string(status);
  }
  return r;
}

Result<MutantResult> try_mutant(const WorldOptions& options, Reference& reference, const Mutant& mutant, const MutantOptions& o) {
  int ends[2] = {-1, -1};
  if (::pipe(ends) != 0) return fail(ErrorCode::io, std::strerror(errno), "mutants", "pipe");
  const pid_t child = ::fork();
  if (child < 0) return fail(ErrorCode::io, std::strerror(errno), "mutants", "fork");
  if (child == 0) {
    ::close(ends[0]);
    report_fd = ends[1];
    live(options, reference, mutant, o);
  }
  ::close(ends[1]);
  std::string said;
  char buffer[512];
  for (ssize_t n = 0; (n = ::read(ends[0], buffer, sizeof(buffer))) > 0;) said.append(buffer, static_cast<std::size_t>(n));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return judge(mutant, options.loop, status, said);
}

// The four defects that made the contract, by name. Each is one tracked write, missing in the loop that was faster.
void add_historic(std::vector<Mutant>& mutants, const std::set<WriteSite>& sites) {
  const auto first_site = [&](CellId cell) {
    return std::find_if(sites.begin(), sites.end(), [cell](const WriteSite& s) { return s.cell == cell; });
  };
  struct Historic {
    const char* name;
    CellId cell;
    bool chained, mixed;
  };
  for (const Historic& h : {Historic{"missing launch stamp", CellId::book_stamp, true, false},
                            Historic{"missing slot reservation", CellId::slots_entries, true, false},
                            Historic{"unpublished relay in a mixed batch", CellId::device_relay, false, true},
                            Historic{"in-flight predicate that tests one loop", CellId::scheduler_busy, true, false}}) {
    const auto site = first_site(h.cell);
    if (site == sites.end()) continue;
    mutants.push_back({std::string(h.name) + " (" + site->name() + ")", "historic", *site, CellObserver::Verdict::drop, h.chained, h.mixed});
  }
}

}  // namespace

std::uint64_t MutantReport::killed() const {
  return static_cast<std::uint64_t>(std::count_if(results.begin(), results.end(), [](const MutantResult& r) { return r.verdict == "killed"; }));
}
std::uint64_t MutantReport::equivalent() const {
  return static_cast<std::uint64_t>(std::count_if(results.begin(), results.end(), [](const MutantResult& r) { return r.verdict == "equivalent"; }));
}

Result<MutantReport> run_mutants(const WorldOptions& options, const std::vector<std::string>& loops, const MutantOptions& o, const ProgressFn& progress,
                                 const StopFn& stop) {
  PLUMB_ASSIGN(const auto reference, Reference::open(options));
  // What there is to delete: the sites that healthy workloads reach. It also fills the reference with every answer.
  std::vector<std::pair<std::string, std::vector<Mutant>>> work;
  std::uint64_t total = 0;
  for (const std::string& loop : loops) {
    WorldOptions with = options;
    with.loop = loop;
    std::set<WriteSite> sites;
    for (std::uint64_t i = 0; i < o.workloads; i += 4) {
      PLUMB_ASSIGN(const auto world, World::open(variant_for(with, o.seed + i), *reference, true));
      for (std::uint64_t w = i; w < std::min(i + 4, o.workloads); ++w) {
        world->run(make_workload(o.seed + w, with, *reference));
        if (world->auditor().violations().empty()) continue;
        const Violation& v = world->auditor().violations().front();
        return fail(ErrorCode::internal, "a healthy engine breaks " + v.clause + ": " + v.what, "mutants", "seed", std::to_string(o.seed + w));
      }
      for (const auto& [site, count] : world->tracker().sites()) sites.insert(site);
    }
    std::vector<Mutant> mutants;
    std::uint64_t n = 0;
    for (const WriteSite& site : sites) {
      if (o.sample == 0 || n++ % o.sample == 0) mutants.push_back({site.name(), "delete", site, CellObserver::Verdict::drop});
      const bool device = site.cell == CellId::device_length || site.cell == CellId::device_relay;  // no later moment
      if (o.delays && !device && (o.sample == 0 || n % o.sample == 0)) mutants.push_back({site.name(), "delay", site, CellObserver::Verdict::delay});
    }
    if (loop != "standard") add_historic(mutants, sites);
    total += mutants.size();
    work.emplace_back(loop, std::move(mutants));
  }
  MutantReport report;
  for (const auto& [loop, mutants] : work) {
    WorldOptions with = options;
    with.loop = loop;
    for (const Mutant& mutant : mutants) {
      if (stop && stop()) return report;
      PLUMB_ASSIGN(MutantResult result, try_mutant(with, *reference, mutant, o));
      report.results.push_back(std::move(result));
      if (progress) progress(report.results.size(), total);
    }
  }
  return report;
}

}  // namespace plumb::conformance
