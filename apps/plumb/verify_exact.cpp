#include "verify_exact.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/build_info.h"
#include "base/status.h"
#include "parity_report.h"

namespace plumb::app {
namespace {

bool within(const KlReport& r, const QualityBudget& budget) {
  return r.mean <= budget.kl_mean && r.p99 <= budget.kl_p99 && r.top1_flips <= budget.top1_flips && r.result_nats - r.source_nats <= budget.heldout;
}

}  // namespace

Result<ExitCode> verify_against_exact(const std::string& model, const KlOptions& o, Console& console) {
  PLUMB_ASSIGN(const KlReport report, measure_kl(model, model, o));
  const QualityBudget budget = quality_budget(o.act, o.kv);
  const bool pass = within(report, budget);
  if (console.json) {
    nlohmann::ordered_json out = {{"verdict", pass ? "PASS" : "FAIL"}, {"act", o.act}, {"kv", o.kv}};
    out.update(kl_json(report));
    out["model"] = {{"path", model}, {"digest", report.digest}};
    out["device"] = {{"name", report.device}, {"isa", report.isa}, {"threads", report.threads}};
    out["build"] = {{"version", build_info().version}, {"commit", build_info().commit}};
    out["budget"] = {{"kl_mean", budget.kl_mean}, {"kl_p99", budget.kl_p99}, {"top1_flips", budget.top1_flips}, {"heldout", budget.heldout}};
    console.print_json(out);
  } else {
    console.print(fmt::format("model      {}, digest {}, against its own exact path\n", model, report.digest));
    console.print(fmt::format("build      plumb {} {}; {}, {}, {} threads\n", build_info().version, build_info().commit, report.device, report.isa, report.threads));
    console.print(kl_text(report));
    console.print(fmt::format("budget     KL mean at most {}, 99th percentile {}, flips {}%, nats +{}\n{}\n", budget.kl_mean, budget.kl_p99,
                              100 * budget.top1_flips, budget.heldout, pass ? "PASS" : "FAIL"));
  }
  return pass ? ExitCode::ok : ExitCode::verdict;
}

}  // namespace plumb::app
