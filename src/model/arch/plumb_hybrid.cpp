// plumb_hybrid: a family of our own, to exercise models whose layers are of different kinds. RMSNorm, SwiGLU, and per layer of
// `layer_types` one of "recurrent" (the gated delta rule, arXiv 2412.06464, without its convolutions and output gate),
// "sliding_attention" and "full_attention" (rotary, grouped-query, no biases). `plumb synth --preset hybrid-tiny` writes one.
//
// Only the Hugging Face layout. Attention layers have llama's tensor names; a recurrent layer has, below `recurrent.`,
// q_proj and k_proj [heads * key_dim][hidden], v_proj [heads * value_dim][hidden], o_proj [hidden][heads * value_dim],
// decay_proj and beta_proj [heads][hidden], decay_bias [heads] and A_log [heads].
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/api/gated_delta.h"
#include "model/arch/common.h"
#include "model/arch/table.h"
#include "model/tensor_reader.h"

namespace plumb::model {
namespace {

constexpr std::uint64_t kMaxSize = 1U << 20;
constexpr const char* kRecurrent = "recurrent";
constexpr const char* kSliding = "sliding_attention";
constexpr const char* kFull = "full_attention";

Result<AttentionSpec> read_attention(const format::Config& c, std::int32_t hidden) {
  AttentionSpec a;
  PLUMB_ASSIGN(a.q_heads, size(c, "num_attention_heads", 1, 4096));
  PLUMB_ASSIGN(a.kv_heads, size_or(c, "num_key_value_heads", static_cast<std::uint64_t>(a.q_heads), 1, 4096));
  PLUMB_ASSIGN(a.head_dim, size_or(c, "head_dim", static_cast<std::uint64_t>(hidden / a.q_heads), 8, 512));
  a.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(a.head_dim)));
  PLUMB_ASSIGN(a.rope, read_hf_rope(c, a.head_dim, true));
  return a;
}

Result<RecurrentSpec> read_recurrent(const format::Config& c) {
  RecurrentSpec r;
  PLUMB_ASSIGN(r.heads, size(c, "recurrent_heads", 1, 4096));
  PLUMB_ASSIGN(r.key_dim, size(c, "recurrent_key_dim", 1, kernels::kMaxStateDim));
  PLUMB_ASSIGN(r.value_dim, size(c, "recurrent_value_dim", 1, kernels::kMaxStateDim));
  return r;
}

// What a kind of layer needs is read only when there is such a layer.
Status read_layers(DecoderSpec& spec, const format::Config& c) {
  PLUMB_ASSIGN(const std::int32_t layers, size(c, "num_hidden_layers", 1, 4096));
  PLUMB_ASSIGN(const std::vector<std::string> types, c.require_strings("layer_types"));
  if (types.size() != static_cast<std::size_t>(layers)) {
    return c.error("layer_types", fmt::format("must name each of the {} layers", layers), std::to_string(types.size()));
  }
  const auto any = [&](const char* type) { return std::find(types.begin(), types.end(), type) != types.end(); };
  PLUMB_ASSIGN(const std::int32_t ffn, size(c, "intermediate_size", 1, kMaxSize));
  AttentionSpec full;
  AttentionSpec sliding;
  RecurrentSpec recurrent;
  if (any(kFull) || any(kSliding)) {
    PLUMB_ASSIGN(full, read_attention(c, spec.hidden));
    sliding = full;
  }
  if (any(kSliding)) {
    PLUMB_ASSIGN(sliding.window, size(c, "sliding_window"));
  }
  if (any(kRecurrent)) {
    PLUMB_ASSIGN(recurrent, read_recurrent(c));
  }
  const DenseSpec dense{.ffn = ffn, .glu = {kernels::GluKind::silu}};
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i] == kRecurrent) {
      spec.layers.push_back({recurrent, dense});
    } else if (types[i] == kSliding || types[i] == kFull) {
      spec.layers.push_back({types[i] == kSliding ? sliding : full, dense});
    } else {
      return fail(ErrorCode::unsupported, fmt::format("a layer is {}, {} or {}", kRecurrent, kSliding, kFull), c.subject(),
                  fmt::format("layer_types[{}]", i), types[i]);
    }
  }
  return {};
}

Result<DecoderSpec> read_hybrid_spec(const format::Checkpoint&, const format::Config& c) {
  DecoderSpec spec{.family = "plumb_hybrid"};
  PLUMB_ASSIGN(spec.vocab, size(c, "vocab_size"));
  PLUMB_ASSIGN(spec.hidden, size(c, "hidden_size", 8, kMaxSize));
  PLUMB_ASSIGN(const double eps, c.optional_real("rms_norm_eps", 1e-5, {1e-12, 1.0}));
  spec.norm_eps = static_cast<float>(eps);
  PLUMB_ASSIGN(spec.max_positions, size(c, "max_position_embeddings"));
  PLUMB_ASSIGN(spec.tied_head, c.optional_bool("tie_word_embeddings", false));
  PLUMB_TRY(read_layers(spec, c));
  return spec;
}

Result<AttentionWeights> read_attention_weights(TensorReader& read, const std::string& prefix, const AttentionSpec& a, std::int32_t hidden) {
  const std::int64_t q = std::int64_t{a.q_heads} * a.head_dim;
  const std::int64_t kv = std::int64_t{a.kv_heads} * a.head_dim;
  AttentionWeights w;
  PLUMB_ASSIGN(w.q, read.matrix(prefix + "self_attn.q_proj.weight", q, hidden));
  PLUMB_ASSIGN(w.k, read.matrix(prefix + "self_attn.k_proj.weight", kv, hidden));
  PLUMB_ASSIGN(w.v, read.matrix(prefix + "self_attn.v_proj.weight", kv, hidden));
  PLUMB_ASSIGN(w.o, read.matrix(prefix + "self_attn.o_proj.weight", hidden, q));
  return w;
}

Result<RecurrentWeights> read_recurrent_weights(TensorReader& read, const std::string& prefix, const RecurrentSpec& r, std::int32_t hidden) {
  const std::int64_t keys = std::int64_t{r.heads} * r.key_dim;
  const std::int64_t values = std::int64_t{r.heads} * r.value_dim;
  RecurrentWeights w;
  PLUMB_ASSIGN(w.q, read.matrix(prefix + "recurrent.q_proj.weight", keys, hidden));
  PLUMB_ASSIGN(w.k, read.matrix(prefix + "recurrent.k_proj.weight", keys, hidden));
  PLUMB_ASSIGN(w.v, read.matrix(prefix + "recurrent.v_proj.weight", values, hidden));
  PLUMB_ASSIGN(w.beta, read.matrix(prefix + "recurrent.beta_proj.weight", r.heads, hidden));
  PLUMB_ASSIGN(w.decay, read.matrix(prefix + "recurrent.decay_proj.weight", r.heads, hidden));
  PLUMB_ASSIGN(w.decay_bias, read.vector(prefix + "recurrent.decay_bias", r.heads));
  PLUMB_ASSIGN(w.decay_rates, read.vector(prefix + "recurrent.A_log", r.heads));
  for (float& rate : w.decay_rates.values) rate = static_cast<float>(std::exp(static_cast<double>(rate)));
  PLUMB_ASSIGN(w.o, read.matrix(prefix + "recurrent.o_proj.weight", hidden, values));
  return w;
}

Result<LayerWeights> read_layer(TensorReader& read, const DecoderSpec& spec, std::size_t index) {
  const LayerSpec& layer = spec.layers[index];
  const std::string prefix = fmt::format("model.layers.{}.", index);
  const std::int32_t ffn = std::get<DenseSpec>(layer.ffn).ffn;
  LayerWeights w;
  PLUMB_ASSIGN(w.mixer_norm, read.vector(prefix + "input_layernorm.weight", spec.hidden));
  PLUMB_ASSIGN(w.ffn_norm, read.vector(prefix + "post_attention_layernorm.weight", spec.hidden));
  if (const auto* attention = std::get_if<AttentionSpec>(&layer.mixer)) {
    PLUMB_ASSIGN(w.mixer, read_attention_weights(read, prefix, *attention, spec.hidden));
  } else {
    PLUMB_ASSIGN(w.mixer, read_recurrent_weights(read, prefix, std::get<RecurrentSpec>(layer.mixer), spec.hidden));
  }
  DenseWeights dense;
  PLUMB_ASSIGN(dense.gate, read.matrix(prefix + "mlp.gate_proj.weight", ffn, spec.hidden));
  PLUMB_ASSIGN(dense.up, read.matrix(prefix + "mlp.up_proj.weight", ffn, spec.hidden));
  PLUMB_ASSIGN(dense.down, read.matrix(prefix + "mlp.down_proj.weight", spec.hidden, ffn));
  w.ffn = std::move(dense);
  return w;
}

Result<DecoderWeights> read_hybrid_weights(const format::Checkpoint& checkpoint, const DecoderSpec& spec) {
  TensorReader read(checkpoint);
  DecoderWeights w;
  PLUMB_ASSIGN(w.embedding, read.matrix("model.embed_tokens.weight", spec.vocab, spec.hidden));
  PLUMB_ASSIGN(w.final_norm, read.vector("model.norm.weight", spec.hidden));
  if (spec.tied_head) {
    w.head = w.embedding;
    read.ignore("lm_head.weight");
  } else {
    PLUMB_ASSIGN(w.head, read.matrix("lm_head.weight", spec.vocab, spec.hidden));
  }
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    PLUMB_ASSIGN(LayerWeights layer, read_layer(read, spec, i));
    w.layers.push_back(std::move(layer));
  }
  PLUMB_TRY(read.finish());
  return w;
}

}  // namespace

const Architecture kPlumbHybrid{"plumb_hybrid", "plumb_hybrid", nullptr, &read_hybrid_spec, &read_hybrid_weights};

}  // namespace plumb::model
