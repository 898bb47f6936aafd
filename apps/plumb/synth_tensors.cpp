#include "synth_tensors.h"

#include <cmath>
#include <string>
#include <utility>

#include "synth_fill.h"

namespace plumb::app {
namespace {

using Shape = std::vector<std::uint64_t>;

// How large the numbers are. A matrix has rms 1 / sqrt(inputs), so that inputs of rms 1 give outputs of rms 1 whatever the
// geometry: attention scores, router logits and output logits all spread by about 1, and nothing overflows in any depth.
float fan_in_rms(std::uint64_t inputs) { return 1.0F / std::sqrt(static_cast<float>(inputs)); }
constexpr float kEmbeddingRms = 1.0F;
constexpr float kNormSpread = 0.1F;     // around 1
constexpr float kBiasSpread = 0.05F;    // around 0
constexpr float kRouterSpread = 0.05F;  // of router biases: too small to prefer an expert
constexpr float kSinkSpread = 1.0F;     // of attention sinks, beside scores of rms 1
// A recurrent head forgets by alpha = exp(-rate softplus(decay)), with decay = projection (rms kDecayRms) + bias and rate =
// exp(A_log): biases of -4.5 +- 1.5 put nearly all alphas into 0.9 .. 0.999, memories of 10 to 1,000 tokens.
constexpr float kDecayRms = 0.3F;
constexpr float kDecayBias = -4.5F;
constexpr float kDecayBiasSpread = 1.5F;
constexpr float kDecayRateSpread = 0.25F;  // of A_log, around 0

class Builder {
 public:
  explicit Builder(std::uint64_t seed) : seed_(seed) {}

  std::uint64_t key(const std::string& role) const { return role_key(seed_, role); }

  void matrix(std::string name, const std::string& role, DType type, Shape shape, float rms) {
    add(std::move(name), type, std::move(shape), dtype_info(type).block_bytes, matrix_fill(key(role), type, rms));
  }
  void vector(std::string name, const std::string& role, DType type, Shape shape, float center, float spread) {
    add(std::move(name), type, std::move(shape), dtype_info(type).block_bytes, uniform_fill(key(role), type, center, spread));
  }
  void add(std::string name, DType type, Shape shape, std::uint64_t granule, FillFn fill) {
    jobs_.push_back({std::move(name), type, std::move(shape), granule, std::move(fill)});
  }
  std::vector<TensorJob> take() { return std::move(jobs_); }

 private:
  std::uint64_t seed_;
  std::vector<TensorJob> jobs_;
};

struct Named {
  const char* role;
  const char* name;
};

// What both layouts share of a layer: everything but the experts. `names` maps roles to the layout's own names.
struct LayerNames {
  const char* mixer_norm;
  const char* ffn_norm;
  const char* q;
  const char* k;
  const char* v;
  const char* o;
  const char* sinks;
  const char* router;
};
constexpr LayerNames kGgufLayer = {"attn_norm", "post_attention_norm", "attn_q", "attn_k", "attn_v", "attn_output", "attn_sinks.weight",
                                   "ffn_gate_inp"};
constexpr LayerNames kHfLayer = {"input_layernorm", "post_attention_layernorm", "self_attn.q_proj", "self_attn.k_proj",
                                 "self_attn.v_proj", "self_attn.o_proj", "self_attn.sinks", "mlp.router"};

// `small`: the type of norms, biases, sinks and routers.
void add_layer(Builder& b, const Geometry& g, const LayerNames& names, const std::string& prefix, const std::string& role,
               DType attention, DType small) {
  const auto linear = [&](const char* name, const char* part, DType type, std::uint64_t out, std::uint64_t in, float bias_spread) {
    b.matrix(prefix + name + ".weight", role + part, type, {out, in}, fan_in_rms(in));
    b.vector(prefix + name + ".bias", role + part + ".bias", small, {out}, 0, bias_spread);
  };
  b.vector(prefix + names.mixer_norm + ".weight", role + "mixer_norm", small, {g.hidden}, 1, kNormSpread);
  linear(names.q, "q", attention, g.q_width(), g.hidden, kBiasSpread);
  linear(names.k, "k", attention, g.kv_width(), g.hidden, kBiasSpread);
  linear(names.v, "v", attention, g.kv_width(), g.hidden, kBiasSpread);
  linear(names.o, "o", attention, g.hidden, g.q_width(), kBiasSpread);
  b.vector(prefix + names.sinks, role + "sinks", small, {g.heads}, 0, kSinkSpread);
  b.vector(prefix + names.ffn_norm + ".weight", role + "ffn_norm", small, {g.hidden}, 1, kNormSpread);
  linear(names.router, "router", small, g.experts, g.hidden, kRouterSpread);
}

std::string layer_role(std::uint64_t layer) { return "layers." + std::to_string(layer) + "."; }

}  // namespace

std::vector<TensorJob> synth_gguf_tensors(const Geometry& g, const MatrixTypes& types, std::uint64_t seed) {
  Builder b(seed);
  b.matrix("token_embd.weight", "embedding", types.embedding, {g.vocab, g.hidden}, kEmbeddingRms);
  for (std::uint64_t i = 0; i < g.layers; ++i) {
    const std::string prefix = "blk." + std::to_string(i) + ".";
    const std::string role = layer_role(i);
    add_layer(b, g, kGgufLayer, prefix, role, types.attention, DType::f32);
    for (const auto& [part, name] : {Named{"gate", "ffn_gate_exps"}, Named{"up", "ffn_up_exps"}}) {
      b.matrix(prefix + name + ".weight", role + part, DType::mxfp4, {g.experts, g.ffn, g.hidden}, fan_in_rms(g.hidden));
      b.vector(prefix + name + ".bias", role + part + ".bias", DType::f32, {g.experts, g.ffn}, 0, kBiasSpread);
    }
    b.matrix(prefix + "ffn_down_exps.weight", role + "down", DType::mxfp4, {g.experts, g.hidden, g.ffn}, fan_in_rms(g.ffn));
    b.vector(prefix + "ffn_down_exps.bias", role + "down.bias", DType::f32, {g.experts, g.hidden}, 0, kBiasSpread);
  }
  b.vector("output_norm.weight", "final_norm", DType::f32, {g.hidden}, 1, kNormSpread);
  b.matrix("output.weight", "head", types.embedding, {g.vocab, g.hidden}, fan_in_rms(g.hidden));
  return b.take();
}

std::vector<TensorJob> synth_hf_tensors(const Geometry& g, const MatrixTypes& types, std::uint64_t seed) {
  Builder b(seed);
  const std::uint64_t hidden_blocks = g.hidden / 32;
  const std::uint64_t ffn_blocks = g.ffn / 32;
  b.matrix("model.embed_tokens.weight", "embedding", types.embedding, {g.vocab, g.hidden}, kEmbeddingRms);
  for (std::uint64_t i = 0; i < g.layers; ++i) {
    const std::string prefix = "model.layers." + std::to_string(i) + ".";
    const std::string experts = prefix + "mlp.experts.";
    const std::string role = layer_role(i);
    add_layer(b, g, kHfLayer, prefix, role, types.attention, DType::bf16);
    const HfExperts gate_up{b.key(role + "gate"), b.key(role + "up"), hidden_blocks, fan_in_rms(g.hidden)};
    const HfExperts down{b.key(role + "down"), 0, ffn_blocks, fan_in_rms(g.ffn)};
    b.add(experts + "gate_up_proj_blocks", DType::u8, {g.experts, 2 * g.ffn, hidden_blocks, 16}, 16 * hidden_blocks,
          hf_codes_fill(gate_up));
    b.add(experts + "gate_up_proj_scales", DType::u8, {g.experts, 2 * g.ffn, hidden_blocks}, hidden_blocks, hf_scales_fill(gate_up));
    b.add(experts + "gate_up_proj_bias", DType::bf16, {g.experts, 2 * g.ffn}, 4,
          interleaved_fill(b.key(role + "gate.bias"), b.key(role + "up.bias"), DType::bf16, 0, kBiasSpread));
    b.add(experts + "down_proj_blocks", DType::u8, {g.experts, g.hidden, ffn_blocks, 16}, 16 * ffn_blocks, hf_codes_fill(down));
    b.add(experts + "down_proj_scales", DType::u8, {g.experts, g.hidden, ffn_blocks}, ffn_blocks, hf_scales_fill(down));
    b.vector(experts + "down_proj_bias", role + "down.bias", DType::bf16, {g.experts, g.hidden}, 0, kBiasSpread);
  }
  b.vector("model.norm.weight", "final_norm", DType::bf16, {g.hidden}, 1, kNormSpread);
  b.matrix("lm_head.weight", "head", types.embedding, {g.vocab, g.hidden}, fan_in_rms(g.hidden));
  return b.take();
}

std::vector<TensorJob> synth_hybrid_tensors(const Geometry& g, const MatrixTypes& types, std::uint64_t seed) {
  Builder b(seed);
  b.matrix("model.embed_tokens.weight", "embedding", types.embedding, {g.vocab, g.hidden}, kEmbeddingRms);
  for (std::uint64_t i = 0; i < g.layers; ++i) {
    const std::string prefix = "model.layers." + std::to_string(i) + ".";
    const std::string role = layer_role(i);
    const auto matrix = [&](const char* name, const char* part, std::uint64_t out, std::uint64_t in) {
      b.matrix(prefix + name + ".weight", role + part, types.attention, {out, in}, fan_in_rms(in));
    };
    const auto vector = [&](const char* name, const char* part, std::uint64_t n, float center, float spread) {
      b.vector(prefix + name, role + part, DType::bf16, {n}, center, spread);
    };
    vector("input_layernorm.weight", "mixer_norm", g.hidden, 1, kNormSpread);
    if (g.recurrent[i]) {
      matrix("recurrent.q_proj", "q", g.key_width(), g.hidden);
      matrix("recurrent.k_proj", "k", g.key_width(), g.hidden);
      matrix("recurrent.v_proj", "v", g.value_width(), g.hidden);
      matrix("recurrent.beta_proj", "beta", g.recurrent_heads, g.hidden);
      b.matrix(prefix + "recurrent.decay_proj.weight", role + "decay", types.attention, {g.recurrent_heads, g.hidden},
               kDecayRms * fan_in_rms(g.hidden));
      vector("recurrent.decay_bias", "decay.bias", g.recurrent_heads, kDecayBias, kDecayBiasSpread);
      vector("recurrent.A_log", "decay.rate", g.recurrent_heads, 0, kDecayRateSpread);
      matrix("recurrent.o_proj", "o", g.hidden, g.value_width());
    } else {
      matrix("self_attn.q_proj", "q", g.q_width(), g.hidden);
      matrix("self_attn.k_proj", "k", g.kv_width(), g.hidden);
      matrix("self_attn.v_proj", "v", g.kv_width(), g.hidden);
      matrix("self_attn.o_proj", "o", g.hidden, g.q_width());
    }
    vector("post_attention_layernorm.weight", "ffn_norm", g.hidden, 1, kNormSpread);
    matrix("mlp.gate_proj", "gate", g.ffn, g.hidden);
    matrix("mlp.up_proj", "up", g.ffn, g.hidden);
    matrix("mlp.down_proj", "down", g.hidden, g.ffn);
  }
  b.vector("model.norm.weight", "final_norm", DType::bf16, {g.hidden}, 1, kNormSpread);
  b.matrix("lm_head.weight", "head", types.embedding, {g.vocab, g.hidden}, fan_in_rms(g.hidden));
  return b.take();
}

}  // namespace plumb::app
