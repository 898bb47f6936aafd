#include "geometry.h"

#include <fmt/format.h>

#include "synth_vocabulary.h"
#include "verb.h"

namespace plumb::app {
namespace {

std::uint64_t layer_parameters(const Geometry& g, std::uint64_t experts) {
  const std::uint64_t attention = g.hidden * (g.q_width() + 2 * g.kv_width()) + g.q_width() + 2 * g.kv_width() +
                                  g.q_width() * g.hidden + g.hidden + g.heads;
  const std::uint64_t router = g.experts * (g.hidden + 1);
  const std::uint64_t expert = 3 * g.hidden * g.ffn + 2 * g.ffn + g.hidden;
  return attention + router + experts * expert + 2 * g.hidden;
}

std::uint64_t hybrid_parameters(const Geometry& g) {
  const std::uint64_t attention = 2 * g.hidden * (g.q_width() + g.kv_width());
  const std::uint64_t recurrent = 2 * g.hidden * (g.key_width() + g.value_width() + g.recurrent_heads) + 2 * g.recurrent_heads;
  std::uint64_t all = 0;
  for (const bool is_recurrent : g.recurrent) {
    all += (is_recurrent ? recurrent : attention) + 3 * g.hidden * g.ffn + 2 * g.hidden;
  }
  return all;
}

// Of the layers, when a token passes through `experts` of each.
std::uint64_t body_parameters(const Geometry& g, std::uint64_t experts) {
  return g.hybrid() ? hybrid_parameters(g) : g.layers * layer_parameters(g, experts);
}

Status need_multiple(const char* option, std::uint64_t value, std::uint64_t of, const std::string& why) {
  if (value % of == 0) return {};
  return usage_error(option, fmt::format("must be a multiple of {}: {}", of, why), std::to_string(value));
}

}  // namespace

bool Geometry::alternates() const {
  for (std::size_t i = 0; i < sliding.size(); ++i) {
    if (sliding[i] != (i % 2 == 0)) return false;
  }
  return true;
}

std::vector<Preset> presets() {
  return {
      {"tiny", "4 layers, hidden 64, a few hundred kB: for tests",
       {.layers = 4, .hidden = 64, .heads = 4, .kv_heads = 2, .head_dim = 16, .experts = 4, .top_k = 2, .ffn = 64, .vocab = 320,
        .window = 16}},
      {"moe-1b", "8 layers, hidden 1,024, 16 experts",
       {.layers = 8, .hidden = 1024, .heads = 16, .kv_heads = 4, .head_dim = 64, .experts = 16, .top_k = 4, .ffn = 2048,
        .vocab = 50304, .window = 128}},
      {"hybrid-tiny", "4 layers, two of them recurrent (the gated delta rule): for tests; --hf only",
       {.layers = 4, .hidden = 64, .heads = 4, .kv_heads = 2, .head_dim = 16, .ffn = 128, .vocab = 320, .window = 32,
        .recurrent_heads = 4, .key_dim = 16, .value_dim = 16},
       "recurrent,sliding,recurrent,full"},
      {"gpt-oss-20b", "the geometry of openai/gpt-oss-20b, 12 GB",
       {.layers = 24, .hidden = 2880, .heads = 64, .kv_heads = 8, .head_dim = 64, .experts = 32, .top_k = 4, .ffn = 2880,
        .vocab = 201088, .window = 128}},
      {"gpt-oss-120b", "the geometry of openai/gpt-oss-120b, 63 GB",
       {.layers = 36, .hidden = 2880, .heads = 64, .kv_heads = 8, .head_dim = 64, .experts = 128, .top_k = 4, .ffn = 2880,
        .vocab = 201088, .window = 128}},
  };
}

std::uint64_t parameter_count(const Geometry& g) {
  return 2 * g.vocab * g.hidden + g.hidden + body_parameters(g, g.experts);
}

std::uint64_t active_parameter_count(const Geometry& g) {
  return g.hidden + g.vocab * g.hidden + g.hidden + body_parameters(g, g.top_k);
}

Status check_geometry(const Geometry& g, const MatrixTypes& types) {
  if (g.heads % g.kv_heads != 0) {
    return usage_error("--heads", fmt::format("must be a multiple of --kv-heads ({})", g.kv_heads), std::to_string(g.heads));
  }
  if (auto status = need_multiple("--head-dim", g.head_dim, 8, "heads are computed 8 lanes at a time"); !status.ok()) return status;
  if (auto status = need_multiple("--hidden", g.hidden, 32, "an MXFP4 block holds 32 elements"); !status.ok()) return status;
  if (auto status = need_multiple("--ffn", g.ffn, 32, "an MXFP4 block holds 32 elements"); !status.ok()) return status;
  if (g.top_k > g.experts) {
    return usage_error("--top-k", fmt::format("must be at most --experts ({})", g.experts), std::to_string(g.top_k));
  }
  if (g.vocab < kMinimumSynthVocabulary) {
    return usage_error("--vocab", fmt::format("must be at least {}: 256 bytes and the special tokens", kMinimumSynthVocabulary),
                       std::to_string(g.vocab));
  }
  const std::uint64_t block = dtype_info(types.attention).block_elements;
  if (g.q_width() % block != 0) {
    return usage_error("--attn", fmt::format("stores blocks of {}, and heads x head-dim is {}; bf16, f16 or f32 fit", block, g.q_width()),
                       std::string(to_string(types.attention)));
  }
  return {};
}

}  // namespace plumb::app
