#include "parity_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/check.h"
#include "measure/parity.h"

namespace plumb::app {
namespace {

using nlohmann::ordered_json;

void raise(Extreme& extreme, double value, const Where& at) {
  if (value > extreme.value) extreme = {value, at};
}
void lower(Extreme& extreme, double value, const Where& at) {
  if (value < extreme.value) extreme = {value, at};
}

std::string place(const Where& at) {
  if (at.position < 0) return "";
  std::string text = fmt::format("prompt {} position {}", at.prompt, at.position);
  if (at.token >= 0) text += fmt::format(" token {}", at.token);
  return text;
}

ordered_json place_json(const Where& at) {
  if (at.position < 0) return nullptr;
  ordered_json out = {{"prompt", at.prompt}, {"position", at.position}};
  if (at.token >= 0) out["token"] = at.token;
  return out;
}

// JSON has no infinity; the largest double stands for it, so that a comparison still goes the right way.
double finite(double value) { return std::isfinite(value) ? value : std::copysign(std::numeric_limits<double>::max(), value); }

std::set<std::int32_t> experts_of(const PromptOutputs& p, std::size_t cell) {
  const auto k = static_cast<std::size_t>(p.top_k);
  const auto* first = p.routes.data() + cell * k;
  return {first, first + k};
}

}  // namespace

ParityReport::ParityReport(std::vector<std::int32_t> routed_layers) {
  for (const std::int32_t layer : routed_layers) routing.push_back({.layer = layer});
}

void ParityReport::add(std::size_t index, const PromptOutputs& oracle, const PromptOutputs& ours) {
  PLUMB_CHECK(oracle.positions == ours.positions && oracle.logits.size() == ours.logits.size());
  ++prompts;
  const std::size_t vocab = oracle.positions.empty() ? 0 : oracle.logits.size() / oracle.positions.size();
  for (std::size_t i = 0; i < oracle.positions.size(); ++i) {
    const auto reference = std::span(oracle.logits).subspan(i * vocab, vocab);
    const auto c = measure::compare_logits(reference, std::span(ours.logits).subspan(i * vocab, vocab));
    const Where here{index, oracle.positions[i], -1};
    const Where token{index, oracle.positions[i], static_cast<std::int32_t>(c.max_abs_at)};
    ++positions;
    lower(cosine_min, c.cosine, here);
    raise(max_abs, c.max_abs, token);
    raise(max_rel, c.max_rel, token);
    raise(kl_max, c.kl, here);
    kl.push_back(c.kl);
    if (c.top1_ours != c.top1_reference) {
      top1.push_back({{index, here.position, static_cast<std::int32_t>(c.top1_ours)}, static_cast<std::int32_t>(c.top1_reference),
                      c.reference_margin});
    }
  }

  GreedyResult text{.prompt = index, .prompt_tokens = static_cast<std::int32_t>(oracle.ids.size()),
                    .steps = static_cast<std::int32_t>(oracle.greedy.size())};
  const auto parted = std::mismatch(oracle.greedy.begin(), oracle.greedy.end(), ours.greedy.begin(), ours.greedy.end()).first;
  if (parted != oracle.greedy.end()) {
    text.diverged_at = static_cast<std::int32_t>(parted - oracle.greedy.begin());
    text.margin = oracle.margin[static_cast<std::size_t>(text.diverged_at)];
  }
  greedy.push_back(text);

  const std::size_t layers = routing.size();
  const bool comparable = oracle.routed_layers == ours.routed_layers && oracle.top_k == ours.top_k && layers > 0;
  oracle_has_routes = oracle_has_routes || comparable;
  for (std::size_t cell = 0; cell < ours.route_margin.size(); ++cell) {
    LayerRouting& layer = routing[cell % layers];
    lower(layer.smallest_margin, ours.route_margin[cell], {index, static_cast<std::int32_t>(cell / layers), -1});
    if (!comparable || experts_of(oracle, cell) == experts_of(ours, cell)) continue;
    ++layer.flips;
    layer.largest_flip_margin = std::max(layer.largest_flip_margin, static_cast<double>(oracle.route_margin[cell]));
  }
}

std::uint64_t ParityReport::counted_top1() const {
  return static_cast<std::uint64_t>(std::count_if(top1.begin(), top1.end(), [&](const auto& m) { return m.margin > 2 * max_abs.value; }));
}

std::uint64_t ParityReport::counted_greedy(const ParityLimits& limits) const {
  return static_cast<std::uint64_t>(std::count_if(
      greedy.begin(), greedy.end(), [&](const auto& g) { return g.diverged_at >= 0 && g.margin >= limits.greedy_margin; }));
}

bool ParityReport::pass(const ParityLimits& limits) const {
  const bool text = !heldout || !heldout_reference || std::abs(heldout->nats_per_token - *heldout_reference) <= limits.heldout;
  return text && cosine_min.value >= limits.cosine && max_abs.value <= limits.max_abs && counted_top1() == 0 && counted_greedy(limits) == 0;
}

double ParityReport::kl_mean() const {
  double sum = 0;
  for (const double one : kl) sum += one;
  return kl.empty() ? 0 : sum / static_cast<double>(kl.size());
}

double ParityReport::kl_quantile(double share) const {
  if (kl.empty()) return 0;
  std::vector<double> sorted = kl;
  std::sort(sorted.begin(), sorted.end());
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

double ParityReport::top1_flips() const {
  return positions == 0 ? 0 : static_cast<double>(top1.size()) / static_cast<double>(positions);
}

QualityBudget quality_budget(const std::string& act, const std::string& kv) {
  QualityBudget sum{0, 0, 0, 0};
  const auto add = [&](const QualityBudget& b) {
    sum = {sum.kl_mean + b.kl_mean, sum.kl_p99 + b.kl_p99, sum.top1_flips + b.top1_flips, sum.heldout + b.heldout};
  };
  if (act == "q8") add({});
  if (kv == "f16") add({2e-4, 2e-3, 0.005, 5e-4});
  if (kv == "bf16") add({1e-3, 1e-2, 0.01, 2e-3});
  if (kv == "q8") add({});
  return sum;
}

bool ParityReport::pass(const QualityBudget& budget) const {
  const bool text = !heldout || !heldout_reference || heldout->nats_per_token - *heldout_reference <= budget.heldout;
  return text && kl_mean() <= budget.kl_mean && kl_quantile(0.99) <= budget.kl_p99 && top1_flips() <= budget.top1_flips;
}

std::string quality_text(const ParityReport& r, const QualityBudget& budget) {
  std::string out = fmt::format("{} prompts, {} positions\n", r.prompts, r.positions);
  const auto line = [&](const char* name, std::string figure, std::string threshold, const std::string& at) {
    out += fmt::format("  {:<24} {:<16} {:<24} {}\n", name, figure, threshold, at);
  };
  line("KL nats, mean", fmt::format("{:.3g}", r.kl_mean()), fmt::format("at most {}", budget.kl_mean), "");
  line("KL nats, 99th percentile", fmt::format("{:.3g}", r.kl_quantile(0.99)), fmt::format("at most {}", budget.kl_p99), "");
  line("KL nats, largest", fmt::format("{:.3g}", r.kl_max.value), "", place(r.kl_max.at));
  line("top-1 flips", fmt::format("{} ({:.2f}%)", r.top1.size(), 100 * r.top1_flips()), fmt::format("at most {}%", 100 * budget.top1_flips), "");
  line("cosine, smallest", fmt::format("{:.9f}", r.cosine_min.value), "", place(r.cosine_min.at));
  line("|delta logit|, largest", fmt::format("{:.3g}", r.max_abs.value), "", place(r.max_abs.at));
  std::int64_t parted = 0;
  for (const auto& g : r.greedy) parted += g.diverged_at >= 0 ? 1 : 0;
  line("greedy texts that part", fmt::format("{} of {}", parted, r.greedy.size()), "", "");
  for (const auto& layer : r.routing) {
    if (!r.oracle_has_routes) break;
    line("routing flips", fmt::format("layer {}: {}", layer.layer, layer.flips), "", fmt::format("oracle's margin up to {:.3g}", layer.largest_flip_margin));
  }
  if (r.heldout) {
    std::string figure = fmt::format("{:.5f}", r.heldout->nats_per_token);
    if (r.heldout_reference) figure += fmt::format(" ({:+.5f})", r.heldout->nats_per_token - *r.heldout_reference);
    line("held-out nats per token", figure, r.heldout_reference ? fmt::format("at most +{}", budget.heldout) : "",
         fmt::format("{} tokens, {} fresh windows of {}", r.heldout->tokens, r.heldout->windows, r.heldout->window));
  }
  return out;
}

nlohmann::ordered_json quality_json(const ParityReport& r, const QualityBudget& budget) {
  ordered_json out = {{"kl_mean", finite(r.kl_mean())}, {"kl_p99", finite(r.kl_quantile(0.99))}, {"top1_flips", r.top1_flips()},
                      {"heldout_nats_more", nullptr},
                      {"budget", {{"kl_mean", budget.kl_mean}, {"kl_p99", budget.kl_p99}, {"top1_flips", budget.top1_flips}, {"heldout", budget.heldout}}}};
  if (r.heldout && r.heldout_reference) out["heldout_nats_more"] = r.heldout->nats_per_token - *r.heldout_reference;
  return out;
}

std::string parity_text(const ParityReport& r, const ParityLimits& limits) {
  std::string out;
  const auto line = [&](const char* name, std::string figure, std::string threshold, const std::string& at) {
    out += fmt::format("  {:<24} {:<16} {:<24} {}\n", name, figure, threshold, at);
  };
  if (r.prompts > 0) {
    out += fmt::format("{} prompts, {} positions\n", r.prompts, r.positions);
    line("cosine, smallest", fmt::format("{:.9f}", r.cosine_min.value), fmt::format("at least {}", limits.cosine), place(r.cosine_min.at));
    line("|delta logit|, largest", fmt::format("{:.3g}", r.max_abs.value), fmt::format("at most {}", limits.max_abs), place(r.max_abs.at));
    line("relative, largest", fmt::format("{:.3g}", r.max_rel.value), "", place(r.max_rel.at));
    line("KL nats, mean", fmt::format("{:.3g}", r.kl_mean()), "", "");
    line("KL nats, largest", fmt::format("{:.3g}", r.kl_max.value), "", place(r.kl_max.at));
    line("top-1 mismatches", fmt::format("{} ({} counted)", r.top1.size(), r.counted_top1()), "none counted", "");
    for (const auto& m : r.top1) {
      out += fmt::format("    {}: the oracle has {} by {:.3g}\n", place(m.at), m.oracle, m.margin);
    }
    std::int64_t steps = 0, parted = 0;
    for (const auto& g : r.greedy) {
      steps += g.steps;
      parted += g.diverged_at >= 0 ? 1 : 0;
    }
    line("greedy texts that part", fmt::format("{} of {}", parted, r.greedy.size()), fmt::format("none at a margin of {}", limits.greedy_margin),
         fmt::format("{} steps", steps));
    for (const auto& g : r.greedy) {
      if (g.diverged_at < 0) continue;
      out += fmt::format("    prompt {} ({} tokens) at step {}, where the oracle's margin is {:.3g}\n", g.prompt, g.prompt_tokens, g.diverged_at,
                         g.margin);
    }
    if (!r.routing.empty()) {
      out += r.oracle_has_routes ? "  routing by layer: positions sent elsewhere, and the router's smallest margin\n"
                                 : "  routing by layer: the oracle has no routes; the router's smallest margin\n";
    }
    for (const auto& layer : r.routing) {
      out += fmt::format("    layer {:>2}  ", layer.layer);
      if (r.oracle_has_routes) out += fmt::format("{} flips (oracle's margin there up to {:.3g})  ", layer.flips, layer.largest_flip_margin);
      out += fmt::format("{:.3g} at {}\n", layer.smallest_margin.value, place(layer.smallest_margin.at));
    }
  }
  if (r.heldout) {
    const std::string reference = r.heldout_reference ? fmt::format("within {} of {:.5f}", limits.heldout, *r.heldout_reference) : "";
    line("held-out nats per token", fmt::format("{:.5f}", r.heldout->nats_per_token), reference,
         fmt::format("{} tokens, {} fresh windows of {}", r.heldout->tokens, r.heldout->windows, r.heldout->window));
  }
  return out;
}

nlohmann::ordered_json parity_json(const ParityReport& r, const ParityLimits& limits) {
  ordered_json out = {{"prompts", r.prompts},
                      {"positions", r.positions},
                      {"cosine_min", r.cosine_min.value},
                      {"max_abs", finite(r.max_abs.value)},
                      {"max_rel", finite(r.max_rel.value)},
                      {"kl_mean", finite(r.kl_mean())},
                      {"kl_max", finite(r.kl_max.value)},
                      {"top1_mismatches", r.counted_top1()},
                      {"top1_mismatches_all", r.top1.size()},
                      {"greedy_mismatches", r.counted_greedy(limits)},
                      {"worst",
                       {{"cosine", place_json(r.cosine_min.at)},
                        {"max_abs", place_json(r.max_abs.at)},
                        {"max_rel", place_json(r.max_rel.at)},
                        {"kl", place_json(r.kl_max.at)}}},
                      {"thresholds",
                       {{"cosine", limits.cosine},
                        {"max_abs", limits.max_abs},
                        {"greedy_margin", limits.greedy_margin},
                        {"heldout", limits.heldout}}}};
  auto& greedy = out["greedy"] = ordered_json::array();
  for (const auto& g : r.greedy) {
    ordered_json one = {{"prompt", g.prompt}, {"prompt_tokens", g.prompt_tokens}, {"steps", g.steps}, {"diverged_at", nullptr}};
    if (g.diverged_at >= 0) {
      one["diverged_at"] = g.diverged_at;
      one["oracle_margin"] = g.margin;
    }
    greedy.push_back(std::move(one));
  }
  out["oracle_has_routes"] = r.oracle_has_routes;
  auto& routing = out["routing"] = ordered_json::array();
  for (const auto& layer : r.routing) {
    ordered_json one = {{"layer", layer.layer},
                        {"smallest_margin", finite(layer.smallest_margin.value)},
                        {"at", place_json(layer.smallest_margin.at)}};
    if (r.oracle_has_routes) {
      one["flips"] = layer.flips;
      one["largest_flip_margin"] = layer.largest_flip_margin;
    }
    routing.push_back(std::move(one));
  }
  if (r.heldout) {
    out["heldout"] = {{"tokens", r.heldout->tokens},
                      {"windows", r.heldout->windows},
                      {"window", r.heldout->window},
                      {"nats_per_token", r.heldout->nats_per_token},
                      {"reference", r.heldout_reference ? ordered_json(*r.heldout_reference) : ordered_json(nullptr)}};
  }
  return out;
}

}  // namespace plumb::app
