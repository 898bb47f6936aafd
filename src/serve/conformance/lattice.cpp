#include "serve/conformance/lattice.h"

#include <algorithm>
#include <cmath>

#include "serve/conformance/lattice_run.h"

namespace plumb::conformance {
namespace {

// KL(truth || arm) of the softmax, in nats.
double kl(const std::vector<float>& truth, const std::vector<float>& arm) {
  const auto log_sum = [](const std::vector<float>& l) {
    const double top = *std::max_element(l.begin(), l.end());
    double sum = 0;
    for (const float x : l) sum += std::exp(x - top);
    return top + std::log(sum);
  };
  const double a = log_sum(truth);
  const double b = log_sum(arm);
  double sum = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const double log_p = truth[i] - a;
    sum += std::exp(log_p) * (log_p - (arm[i] - b));
  }
  return std::max(sum, 0.0);
}

ArmResult compare(const Arm& arm, const ArmRun& truth, const ArmRun& run, std::int32_t prompt) {
  ArmResult r{.axis = arm.axis, .name = arm.name, .promised = !arm.own_class};
  if (!run.refused.empty()) {
    r.verdict = "does not apply";
    r.witness = run.refused;
    r.ok = true;
    return r;
  }
  r.witness = run.witness;
  for (const auto& [position, digest] : run.digests) {
    const auto known = truth.digests.find(position);
    if (known == truth.digests.end()) continue;
    ++r.positions;
    r.equal += digest == known->second ? 1 : 0;
  }
  const auto common = std::min(truth.text.size(), run.text.size());
  const auto parts = std::mismatch(truth.text.begin(), truth.text.begin() + static_cast<std::ptrdiff_t>(common), run.text.begin()).first;
  const auto answer = static_cast<std::int32_t>(truth.text.size()) - prompt;
  const bool same_text = parts == truth.text.begin() + static_cast<std::ptrdiff_t>(common);
  r.tokens = std::clamp(static_cast<std::int32_t>(parts - truth.text.begin()) - prompt, 0, answer);
  r.verdict = r.positions > 0 && r.equal == r.positions && same_text ? "bit-equal" : same_text ? "token-equal" : "differs";
  if (arm.own_class) {
    for (const auto& [position, logits] : run.logits) {
      const double nats = arm.exact ? kl(logits, truth.logits.at(position)) : kl(truth.logits.at(position), logits);
      r.kl_mean += nats / static_cast<double>(run.logits.size());
      r.kl_max = std::max(r.kl_max, nats);
    }
    r.kl_bound = arm.kl_bound;
    r.kl_max_bound = arm.kl_max_bound;
  }
  r.ok = run.reached && (arm.own_class ? r.kl_mean <= r.kl_bound && r.kl_max <= r.kl_max_bound : r.verdict == "bit-equal");
  return r;
}

}  // namespace

Result<std::vector<ArmResult>> run_lattice(const std::string& model, const LatticeOptions& options, const ProgressFn& progress, const StopFn& stop) {
  const Arm base{.axis = "base", .name = "alone, cold, standard", .options = lattice_base(options)};
  PLUMB_ASSIGN(const ArmRun truth, run_arm(model, options, base, nullptr, false));
  const std::vector<Arm> arms = lattice_arms(options);
  std::vector<ArmResult> results;
  for (const Arm& arm : arms) {
    if (stop && stop()) break;
    PLUMB_ASSIGN(const ArmRun run, run_arm(model, options, arm, &truth, false));
    results.push_back(compare(arm, truth, run, options.prompt));
    if (results.back().verdict == "token-equal" || results.back().verdict == "differs") {
      PLUMB_ASSIGN(const ArmRun one, run_arm(model, options, base, nullptr, true));
      PLUMB_ASSIGN(const ArmRun other, run_arm(model, options, arm, &truth, true));
      results.back().first = StepTrace::first_difference(*one.trace, *other.trace);
    }
    if (progress) progress(results.size(), arms.size());
  }
  return results;
}

}  // namespace plumb::conformance
