#include "contract_exits.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "interrupt.h"
#include "progress.h"
#include "serve/conformance/exit_matrix.h"

namespace plumb::app {
namespace {

using conformance::ExitCell;

constexpr auto kPhases = static_cast<std::size_t>(conformance::Phase::count_);

// One table a loop, exits down and phases across; then the reasons and failures, each once.
std::string to_text(const std::vector<ExitCell>& cells) {
  std::string text;
  std::vector<std::pair<std::string, std::string>> notes;  // "-1" and the reason
  const auto mark = [&](const ExitCell& c) -> std::string {
    if (c.verdict == "clean") return "clean";
    if (!c.ok()) return "FAILED";
    for (const auto& [name, note] : notes) {
      if (note == c.note) return name;
    }
    notes.emplace_back("- " + std::to_string(notes.size() + 1), c.note);
    return notes.back().first;
  };
  std::string loop;
  for (std::size_t i = 0; i + kPhases <= cells.size(); i += kPhases) {
    if (cells[i].loop != loop) {
      loop = cells[i].loop;
      text += fmt::format("{}loop {}\n{:<12}", text.empty() ? "" : "\n", loop, "exit");
      for (std::size_t p = 0; p < kPhases; ++p) text += fmt::format(" {:<17}", to_string(cells[i + p].phase));
      text += "\n";
    }
    text += fmt::format("{:<12}", to_string(cells[i].exit));
    for (std::size_t p = 0; p < kPhases; ++p) text += fmt::format(" {:<17}", mark(cells[i + p]));
    text += "\n";
  }
  text += "\n";
  for (const auto& [name, note] : notes) text += fmt::format("{}: cannot be: {}\n", name, note);
  for (const ExitCell& c : cells) {
    if (!c.ok()) text += fmt::format("FAILED {}: {}, {}: {}\n", c.loop, to_string(c.exit), to_string(c.phase), c.note);
  }
  return text;
}

}  // namespace

Result<ExitCode> print_exit_matrix(const std::string& model, const std::vector<std::string>& loops, Console& console) {
  const InterruptGuard guard;
  Progress progress("exits", loops.size() * kPhases * static_cast<std::size_t>(conformance::Exit::count_), console.quiet || console.json, "cells");
  PLUMB_ASSIGN(const auto cells, conformance::run_exit_matrix(model, loops, [&](std::uint64_t done, std::uint64_t) { progress.update(done); },
                                                              [&] { return guard.interrupted(); }));
  if (guard.interrupted()) return interrupted_error();
  progress.finish();
  std::size_t clean = 0;
  std::size_t failed = 0;
  for (const ExitCell& c : cells) {
    clean += c.verdict == "clean" ? 1 : 0;
    failed += c.ok() ? 0 : 1;
  }
  const std::size_t impossible = cells.size() - clean - failed;
  if (console.json) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const ExitCell& c : cells) {
      rows.push_back({{"loop", c.loop}, {"exit", to_string(c.exit)}, {"phase", to_string(c.phase)}, {"verdict", c.verdict},
                      {"note", c.note}, {"in_flight", c.in_flight}});
    }
    console.print_json({{"model", model}, {"ok", failed == 0}, {"clean", clean}, {"impossible", impossible}, {"failed", failed}, {"cells", rows}});
  } else {
    console.print(to_text(cells));
    console.print(fmt::format("{} cells: {} struck and without residue, {} cannot be, {} failed\n", cells.size(), clean, impossible, failed));
  }
  return failed == 0 ? ExitCode::ok : ExitCode::verdict;
}

}  // namespace plumb::app
