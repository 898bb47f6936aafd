#include "contract_lattice.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "interrupt.h"
#include "progress.h"
#include "serve/conformance/lattice.h"

namespace plumb::app {
namespace {

using conformance::ArmResult;

std::string to_text(const std::vector<ArmResult>& results) {
  std::string text = fmt::format("{:<19} {:<50} {:<14} {:>11} {:>7}  seen\n", "axis", "run", "found", "positions", "answer");
  for (const ArmResult& r : results) {
    text += fmt::format("{:<19} {:<50} {:<14} {:>11} {:>7}  {}{}\n", r.axis, r.name, r.verdict,
                        r.verdict == "does not apply" ? "" : fmt::format("{} of {}", r.equal, r.positions), r.tokens, r.witness,
                        r.ok ? "" : "  BROKEN PROMISE");
    if (!r.promised) {
      text += fmt::format("{:<19} another class: KL mean {:.3g} (at most {:.2g}), largest {:.3g} (at most {:.2g})\n", "", r.kl_mean, r.kl_bound, r.kl_max, r.kl_max_bound);
    }
    if (r.first) text += fmt::format("{:<19} first difference: {}\n", "", r.first->to_string());
  }
  return text;
}

nlohmann::ordered_json to_document(const ArmResult& r) {
  nlohmann::ordered_json row = {{"axis", r.axis}, {"run", r.name}, {"promised", r.promised ? "bit-equal" : "own class"}, {"found", r.verdict},
                                {"ok", r.ok}, {"positions", r.positions}, {"equal", r.equal}, {"answer_tokens", r.tokens}, {"seen", r.witness}};
  if (!r.promised) row["kl"] = {{"mean", r.kl_mean}, {"largest", r.kl_max}, {"mean_bound", r.kl_bound}, {"largest_bound", r.kl_max_bound}};
  if (r.first) row["first_difference"] = {{"position", r.first->position}, {"layer", r.first->layer}, {"where", r.first->where}};
  return row;
}

}  // namespace

Result<ExitCode> print_lattice(const std::string& model, bool markdown, Console& console) {
  const InterruptGuard guard;
  const std::filesystem::path scratch = std::filesystem::temp_directory_path() / fmt::format("plumb-lattice-{}", ::getpid());
  std::unique_ptr<Progress> progress;
  const auto on_progress = [&](std::uint64_t done, std::uint64_t total) {
    if (progress == nullptr) progress = std::make_unique<Progress>("lattice", total, console.quiet || console.json, "runs");
    progress->update(done);
  };
  PLUMB_ASSIGN(const auto results, conformance::run_lattice(model, {.scratch_file = scratch.string()}, on_progress, [&] { return guard.interrupted(); }));
  if (guard.interrupted()) return interrupted_error();
  if (progress != nullptr) progress->finish();
  const bool ok = std::all_of(results.begin(), results.end(), [](const ArmResult& r) { return r.ok; });
  if (markdown) {
    console.print(conformance::lattice_markdown(model, results));
  } else if (console.json) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const ArmResult& r : results) rows.push_back(to_document(r));
    console.print_json({{"model", model}, {"ok", ok}, {"runs", rows}});
  } else {
    console.print(to_text(results));
    console.print(ok ? "every promise holds\n" : "A PROMISE IS BROKEN\n");
  }
  return ok ? ExitCode::ok : ExitCode::verdict;
}

}  // namespace plumb::app
