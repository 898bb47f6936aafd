#include "route_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace plumb::app {

std::vector<RouteRow> route_rows(const decode::Executor& executor) {
  std::vector<RouteRow> rows;
  const auto& phases = executor.program().phases;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const bool attention = phases[i].op == &kernels::op<kernels::AttentionArgs>();
    const auto& uses = executor.uses(i);
    const bool used = std::any_of(uses.begin(), uses.end(), [](const auto& u) { return u.use.steps > 0; });
    for (std::size_t v = 0; v < uses.size(); ++v) {
      const auto& use = uses[v];
      // What ran, or would: a phase that never ran is listed with its first kernel.
      if (use.kernel == nullptr || (use.use.steps == 0 && (used || v > 0))) continue;
      const auto same = [&](const RouteRow& r) {
        return r.phase_class == phases[i].phase_class && r.op == phases[i].op->name && r.kernel == use.kernel->kernel.name;
      };
      auto row = std::find_if(rows.begin(), rows.end(), same);
      if (row == rows.end()) {
        row = rows.insert(rows.end(), {phases[i].phase_class, phases[i].op->name, use.kernel->kernel.name, 0, 0, 0, attention ? 0 : 1, 0});
      }
      ++row->phases;
      row->steps = std::max(row->steps, use.use.steps);
      row->positions_x_layers += use.use.rows;
      row->slices = std::max(row->slices, use.slices);
      row->refused += use.refused;
    }
  }
  return rows;
}

std::string route_text(const std::vector<RouteRow>& rows) {
  std::string text = fmt::format("{:<18} {:<12} {:<28} {:>6} {:>8} {:>18} {:>6} {:>7}\n", "class", "op", "kernel", "phases", "steps",
                                 "positions x layers", "slices", "refused");
  for (const RouteRow& r : rows) {
    text += fmt::format("{:<18} {:<12} {:<28} {:>6} {:>8} {:>18} {:>6} {:>7}\n", r.phase_class, r.op, r.kernel, r.phases, r.steps,
                        r.positions_x_layers, r.slices, r.refused);
  }
  return text;
}

nlohmann::ordered_json route_json(const std::vector<RouteRow>& rows) {
  auto list = nlohmann::ordered_json::array();
  for (const RouteRow& r : rows) {
    list.push_back({{"phase_class", r.phase_class}, {"op", r.op}, {"kernel", r.kernel}, {"phases", r.phases}, {"steps", r.steps},
                    {"positions_x_layers", r.positions_x_layers}, {"slices", r.slices}, {"refused", r.refused}});
  }
  return list;
}

}  // namespace plumb::app
