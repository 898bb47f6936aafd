#include "serve/conformance/exit_matrix.h"

#include <memory>
#include <utility>

#include "decode/loop.h"
#include "serve/conformance/exit_cast.h"

namespace plumb::conformance {
namespace {

constexpr auto kExits = static_cast<std::size_t>(Exit::count_);
constexpr auto kPhases = static_cast<std::size_t>(Phase::count_);

// One loop's engines: cells without residue follow each other on one.
class Runner {
 public:
  Runner(const WorldOptions& options, Reference& reference) : options_(options), reference_(reference) {}

  Result<ExitCell> run(Exit exit, Phase phase) {
    if (exit == Exit::retract || exit == Exit::memory) return under_pressure(exit, phase);
    if (exit == Exit::eos && reference_.engine().info().eos_ids.empty()) {
      return ExitCell{options_.loop, exit, phase, "impossible", "the model has no end token", 0};
    }
    PLUMB_ASSIGN(const ExitCast cast, cast_for(exit, phase, options_, reference_));
    if (world_ == nullptr) {
      PLUMB_ASSIGN(world_, World::open(options_, reference_, false));
    }
    ExitCellRun run(*world_, exit, phase, cast);
    return run.run();
  }
  // The engine is used up.
  void renew() { world_.reset(); }

 private:
  Result<ExitCell> under_pressure(Exit exit, Phase phase) {
    ExitCell last{options_.loop, exit, phase, "FAILED", "no engine was small enough", 0};
    WorldOptions options = options_;
    ExitCast cast;
    std::unique_ptr<World> world;
    std::int32_t pages = -1;
    for (std::size_t attempt = 0; cast_for_pressure(exit, phase, attempt, options, cast, reference_); ++attempt) {
      if (world == nullptr || options.pool_pages != pages || !world->auditor().violations().empty()) {
        PLUMB_ASSIGN(world, World::open(options, reference_, false));
        pages = options.pool_pages;
      }
      ExitCellRun run(*world, exit, phase, cast);
      last = run.run();
      if (run.struck() || !world->auditor().violations().empty()) return last;
      world->forget();
    }
    return last;
  }

  const WorldOptions options_;
  Reference& reference_;
  std::unique_ptr<World> world_;
};

}  // namespace

Result<std::vector<ExitCell>> run_exit_matrix(const std::string& model, const std::vector<std::string>& loops, const ProgressFn& progress,
                                              const StopFn& stop) {
  std::vector<ExitCell> cells;
  WorldOptions roomy = exit_world(model, "standard");
  roomy.context = 256;  // the largest engine of all cells: an answer does not depend on how much room there was
  roomy.pool_pages = 24;
  PLUMB_ASSIGN(const auto reference, Reference::open(roomy));
  const std::uint64_t total = loops.size() * kExits * kPhases;
  for (const std::string& loop : loops) {
    PLUMB_ASSIGN(const decode::LoopChoice choice, decode::parse_loop(loop));
    Runner runner(exit_world(model, loop), *reference);
    for (std::size_t e = 0; e < kExits; ++e) {
      for (std::size_t p = 0; p < kPhases && !(stop && stop()); ++p) {
        const auto exit = static_cast<Exit>(e);
        const auto phase = static_cast<Phase>(p);
        if (const char* reason = impossible(exit, phase, choice.entry->chained); reason != nullptr) {
          cells.push_back({loop, exit, phase, "impossible", reason, 0});
        } else {
          PLUMB_ASSIGN(ExitCell cell, runner.run(exit, phase));
          if (!cell.ok() || exit == Exit::shutdown || exit == Exit::lost) runner.renew();
          cells.push_back(std::move(cell));
        }
        if (progress) progress(cells.size(), total);
      }
    }
  }
  return cells;
}

}  // namespace plumb::conformance
