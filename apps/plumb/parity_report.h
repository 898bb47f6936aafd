// What comparing a model with its oracle found, the verdict, and its two forms: text and JSON.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model_outputs.h"
#include "oracle_file.h"

namespace plumb::app {

// The thresholds of a PASS. The float32 implementations that have been compared agree to 2.5e-5 in the logits; 5e-4 leaves
// room for another order of summation at depth, and is far below what a wrong scale or a wrong position does.
struct ParityLimits {
  double cosine = 0.999999;
  double max_abs = 5e-4;
  double greedy_margin = 1e-3;  // nearer ties than this may be broken either way
  double heldout = 1e-3;        // nats per token
};

// What the deployment path may cost where it is not the exact one. docs/QUALITY.md says where the figures come from; they stand
// there before the speed they pay for is measured.
struct QualityBudget {
  double kl_mean = 2e-3;     // nats
  double kl_p99 = 2e-2;
  double top1_flips = 0.02;  // of the positions
  double heldout = 5e-3;     // nats per token above the oracle's
};
// The sum of what the forms of activations ("f32", "q8") and of KV ("f32", "f16", "bf16", "q8") may cost; zeroes: the exact path.
QualityBudget quality_budget(const std::string& act, const std::string& kv);

struct Where {
  std::size_t prompt = 0;
  std::int32_t position = -1;
  std::int32_t token = -1;
};

struct Extreme {
  double value = 0;
  Where at;
};

struct Top1Mismatch {
  Where at;             // token: ours
  std::int32_t oracle;  // the oracle's token
  double margin;        // the oracle's
};

struct GreedyResult {
  std::size_t prompt = 0;
  std::int32_t prompt_tokens = 0;
  std::int32_t steps = 0;
  std::int32_t diverged_at = -1;  // first step that differs; what follows it is another text and is not compared
  double margin = 0;              // the oracle's, at that step
};

struct LayerRouting {
  std::int32_t layer = 0;
  Extreme smallest_margin{std::numeric_limits<double>::infinity(), {}};  // of our router
  std::uint64_t flips = 0;          // positions sent to another set of experts
  double largest_flip_margin = 0;   // the oracle's router margin at those
};

class ParityReport {
 public:
  explicit ParityReport(std::vector<std::int32_t> routed_layers);

  // Compares prompt `index`. REQUIRES: the same positions and vocabulary on both sides.
  void add(std::size_t index, const PromptOutputs& oracle, const PromptOutputs& ours);

  std::uint64_t prompts = 0;
  std::uint64_t positions = 0;
  Extreme cosine_min{1, {}};
  Extreme max_abs, max_rel, kl_max;
  std::vector<double> kl;  // of every position
  std::vector<Top1Mismatch> top1;
  std::vector<GreedyResult> greedy;
  std::vector<LayerRouting> routing;
  bool oracle_has_routes = false;
  std::optional<Heldout> heldout;
  std::optional<double> heldout_reference;

  // Mismatches whose oracle margin is more than twice the largest |delta|: rounding cannot explain them.
  std::uint64_t counted_top1() const;
  // Prompts whose greedy text parts from the oracle's at a margin of at least limits.greedy_margin.
  std::uint64_t counted_greedy(const ParityLimits& limits) const;
  double kl_mean() const;
  // The smallest KL that at least `share` of the positions do not exceed. 0 without positions.
  double kl_quantile(double share) const;
  double top1_flips() const;  // share of the positions
  bool pass(const ParityLimits& limits) const;
  bool pass(const QualityBudget& budget) const;
};

std::string parity_text(const ParityReport& report, const ParityLimits& limits);
// Each quantity of the budget with its figure, and what else says how far the paths are apart.
std::string quality_text(const ParityReport& report, const QualityBudget& budget);
nlohmann::ordered_json quality_json(const ParityReport& report, const QualityBudget& budget);
// The keys that docs/CLI.md lists.
nlohmann::ordered_json parity_json(const ParityReport& report, const ParityLimits& limits);

}  // namespace plumb::app
