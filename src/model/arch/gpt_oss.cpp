// gpt-oss: RMSNorm, grouped-query attention with sinks on every layer, alternating sliding and full, YaRN without truncation,
// a mixture of experts with a clamped SwiGLU. Sources: openai/gpt-oss model card (arXiv 2508.10925) and its reference code.
//
// Two containers: the Hugging Face layout (interleaved gate and up rows, MXFP4 codes and scales in two tensors) and GGUF
// (separate gate and up, 17-byte blocks). Both become views of the same kind; no weight is copied.
#include <fmt/format.h>

#include <cmath>

#include "kernels/api/route.h"
#include "model/arch/common.h"
#include "model/arch/table.h"
#include "model/tensor_reader.h"

namespace plumb::model {
namespace {

constexpr float kAlpha = 1.702F;        // of the reference code; no container stores it
constexpr double kLimitDefault = 7.0;   // `swiglu_limit`; absent from GGUF
constexpr std::uint64_t kMaxSize = 1U << 20;

struct Sizes {
  std::int32_t layers, heads, kv_heads, head_dim, experts, top_k, ffn, window;
};

LayerSpec layer_spec(const Sizes& s, bool sliding, bool attention_bias, const RopeSpec& rope, float limit) {
  const AttentionSpec attention{.window = sliding ? s.window : 0,
                                .head_dim = s.head_dim,
                                .q_heads = s.heads,
                                .kv_heads = s.kv_heads,
                                .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(s.head_dim))),
                                .sinks = true,
                                .bias = attention_bias,
                                .out_bias = attention_bias,
                                .rope = rope};
  const MoeSpec moe{.experts = s.experts,
                    .top_k = s.top_k,
                    .ffn = s.ffn,
                    .router_bias = true,
                    .expert_bias = true,
                    .glu = {kernels::GluKind::clamped_silu, kAlpha, limit}};
  return {attention, moe};
}

Result<DecoderSpec> spec_from_hf(const format::Config& c) {
  DecoderSpec spec{.family = "gpt_oss"};
  PLUMB_ASSIGN(spec.vocab, size(c, "vocab_size"));
  PLUMB_ASSIGN(spec.hidden, size(c, "hidden_size", 32, kMaxSize));
  PLUMB_ASSIGN(const double eps, c.optional_real("rms_norm_eps", 1e-5, {1e-12, 1.0}));
  spec.norm_eps = static_cast<float>(eps);
  PLUMB_ASSIGN(spec.max_positions, size_or(c, "max_position_embeddings", 131072));
  PLUMB_ASSIGN(spec.tied_head, c.optional_bool("tie_word_embeddings", false));
  Sizes s{};
  PLUMB_ASSIGN(s.layers, size(c, "num_hidden_layers", 1, 4096));
  PLUMB_ASSIGN(s.heads, size(c, "num_attention_heads", 1, 4096));
  PLUMB_ASSIGN(s.kv_heads, size_or(c, "num_key_value_heads", static_cast<std::uint64_t>(s.heads), 1, 4096));
  PLUMB_ASSIGN(s.head_dim, size(c, "head_dim", 8, 512));
  PLUMB_ASSIGN(s.experts, size(c, "num_local_experts", 1, 4096));
  PLUMB_ASSIGN(s.top_k, size(c, c.first_of({"num_experts_per_tok", "experts_per_token"}), 1, kernels::kMaxTopK));
  PLUMB_ASSIGN(s.ffn, size(c, "intermediate_size", 32, kMaxSize));
  PLUMB_ASSIGN(s.window, size_or(c, "sliding_window", 128));
  PLUMB_ASSIGN(const bool bias, c.optional_bool("attention_bias", true));
  PLUMB_ASSIGN(const double limit, c.optional_real("swiglu_limit", kLimitDefault, {0.0, 1e6}));
  PLUMB_ASSIGN(const RopeSpec rope, read_hf_rope(c, s.head_dim, true));
  PLUMB_ASSIGN(const std::vector<std::string> types, c.require_strings("layer_types"));
  if (types.size() != static_cast<std::size_t>(s.layers)) {
    return c.error("layer_types", fmt::format("must name each of the {} layers", s.layers), std::to_string(types.size()));
  }
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i] != "sliding_attention" && types[i] != "full_attention") {
      return fail(ErrorCode::unsupported, "a layer is sliding_attention or full_attention", c.subject(),
                  fmt::format("layer_types[{}]", i), types[i]);
    }
    spec.layers.push_back(layer_spec(s, types[i] == "sliding_attention", bias, rope, static_cast<float>(limit)));
  }
  return spec;
}

Result<DecoderSpec> spec_from_gguf(const format::Checkpoint& checkpoint, const format::Config& c) {
  const std::string a = "gpt-oss";
  DecoderSpec spec{.family = "gpt_oss"};
  PLUMB_ASSIGN(const format::TensorView* embedding, checkpoint.require("token_embd.weight"));
  if (embedding->shape.size() != 2 || embedding->shape[0] == 0 || embedding->shape[0] > (1U << 24)) {
    return fail(ErrorCode::shape_mismatch, "the embedding must be [vocabulary][hidden]", checkpoint.subject(), embedding->name,
                format::shape_text(embedding->shape));
  }
  spec.vocab = static_cast<std::int32_t>(embedding->shape[0]);
  PLUMB_ASSIGN(spec.hidden, size(c, a + ".embedding_length", 32, kMaxSize));
  PLUMB_ASSIGN(const double eps, c.optional_real(a + ".attention.layer_norm_rms_epsilon", 1e-5, {1e-12, 1.0}));
  spec.norm_eps = static_cast<float>(eps);
  PLUMB_ASSIGN(spec.max_positions, size_or(c, a + ".context_length", 131072));
  spec.tied_head = checkpoint.find("output.weight") == nullptr;
  Sizes s{};
  PLUMB_ASSIGN(s.layers, size(c, a + ".block_count", 1, 4096));
  PLUMB_ASSIGN(s.heads, size(c, a + ".attention.head_count", 1, 4096));
  PLUMB_ASSIGN(s.kv_heads, size_or(c, a + ".attention.head_count_kv", static_cast<std::uint64_t>(s.heads), 1, 4096));
  PLUMB_ASSIGN(s.head_dim, size(c, a + ".attention.key_length", 8, 512));
  PLUMB_ASSIGN(const std::int32_t value_length,
               size_or(c, a + ".attention.value_length", static_cast<std::uint64_t>(s.head_dim), 8, 512));
  if (value_length != s.head_dim) {
    return fail(ErrorCode::unsupported, fmt::format("value heads must be as wide as key heads, {}", s.head_dim), c.subject(),
                a + ".attention.value_length", std::to_string(value_length));
  }
  PLUMB_ASSIGN(s.experts, size(c, a + ".expert_count", 1, 4096));
  PLUMB_ASSIGN(s.top_k, size(c, a + ".expert_used_count", 1, kernels::kMaxTopK));
  PLUMB_ASSIGN(s.ffn, size(c, c.first_of({a + ".expert_feed_forward_length", a + ".feed_forward_length"}), 32, kMaxSize));
  PLUMB_ASSIGN(s.window, size(c, a + ".attention.sliding_window"));
  PLUMB_ASSIGN(const RopeSpec rope, read_gguf_rope(c, a, s.head_dim, 150000.0, false));
  const bool bias = checkpoint.find("blk.0.attn_q.bias") != nullptr;
  for (std::int32_t i = 0; i < s.layers; ++i) {
    // GGUF has no pattern key for this family: period two, even layers sliding, as the released models are.
    spec.layers.push_back(layer_spec(s, i % 2 == 0, bias, rope, static_cast<float>(kLimitDefault)));
  }
  return spec;
}

Result<DecoderSpec> read_gpt_oss_spec(const format::Checkpoint& checkpoint, const format::Config& config) {
  if (checkpoint.container() == format::Container::gguf) return spec_from_gguf(checkpoint, config);
  return spec_from_hf(config);
}

// Names of one layer's tensors in the two containers, and the few differences in how experts are stored.
class GptOssWeights {
 public:
  GptOssWeights(const format::Checkpoint& checkpoint, const DecoderSpec& spec)
      : gguf_(checkpoint.container() == format::Container::gguf), spec_(spec), read_(checkpoint) {}

  Result<DecoderWeights> run() {
    DecoderWeights w;
    PLUMB_ASSIGN(w.embedding, read_.matrix(gguf_ ? "token_embd.weight" : "model.embed_tokens.weight", spec_.vocab, spec_.hidden));
    PLUMB_ASSIGN(w.final_norm, read_.vector(gguf_ ? "output_norm.weight" : "model.norm.weight", spec_.hidden));
    if (spec_.tied_head) {
      w.head = w.embedding;
    } else {
      PLUMB_ASSIGN(w.head, read_.matrix(gguf_ ? "output.weight" : "lm_head.weight", spec_.vocab, spec_.hidden));
    }
    for (std::size_t i = 0; i < spec_.layers.size(); ++i) {
      prefix_ = gguf_ ? fmt::format("blk.{}.", i) : fmt::format("model.layers.{}.", i);
      PLUMB_ASSIGN(LayerWeights layer, this->layer(spec_.layers[i]));
      w.layers.push_back(std::move(layer));
    }
    PLUMB_TRY(read_.finish());
    return w;
  }

 private:
  std::string name(const char* in_gguf, const char* in_hf) const { return prefix_ + (gguf_ ? in_gguf : in_hf); }

  Result<LayerWeights> layer(const LayerSpec& spec) {
    LayerWeights w;
    PLUMB_ASSIGN(w.mixer_norm, read_.vector(name("attn_norm.weight", "input_layernorm.weight"), spec_.hidden));
    PLUMB_ASSIGN(w.ffn_norm, read_.vector(name("post_attention_norm.weight", "post_attention_layernorm.weight"), spec_.hidden));
    PLUMB_ASSIGN(w.mixer, attention(std::get<AttentionSpec>(spec.mixer)));
    PLUMB_ASSIGN(w.ffn, moe(std::get<MoeSpec>(spec.ffn)));
    return w;
  }

  Result<AttentionWeights> attention(const AttentionSpec& a) {
    const std::int64_t q = std::int64_t{a.q_heads} * a.head_dim;
    const std::int64_t kv = std::int64_t{a.kv_heads} * a.head_dim;
    AttentionWeights w;
    PLUMB_ASSIGN(w.q, read_.matrix(name("attn_q.weight", "self_attn.q_proj.weight"), q, spec_.hidden));
    PLUMB_ASSIGN(w.k, read_.matrix(name("attn_k.weight", "self_attn.k_proj.weight"), kv, spec_.hidden));
    PLUMB_ASSIGN(w.v, read_.matrix(name("attn_v.weight", "self_attn.v_proj.weight"), kv, spec_.hidden));
    PLUMB_ASSIGN(w.o, read_.matrix(name("attn_output.weight", "self_attn.o_proj.weight"), spec_.hidden, q));
    if (a.bias) {
      PLUMB_ASSIGN(w.q_bias, read_.vector(name("attn_q.bias", "self_attn.q_proj.bias"), q));
      PLUMB_ASSIGN(w.k_bias, read_.vector(name("attn_k.bias", "self_attn.k_proj.bias"), kv));
      PLUMB_ASSIGN(w.v_bias, read_.vector(name("attn_v.bias", "self_attn.v_proj.bias"), kv));
    }
    if (a.out_bias) {
      PLUMB_ASSIGN(w.o_bias, read_.vector(name("attn_output.bias", "self_attn.o_proj.bias"), spec_.hidden));
    }
    PLUMB_ASSIGN(w.sinks, read_.vector(name("attn_sinks.weight", "self_attn.sinks"), a.q_heads));
    return w;
  }

  Result<MoeWeights> moe(const MoeSpec& m) {
    MoeWeights w;
    PLUMB_ASSIGN(w.router, read_.matrix(name("ffn_gate_inp.weight", "mlp.router.weight"), m.experts, spec_.hidden));
    PLUMB_ASSIGN(w.router_bias, read_.vector(name("ffn_gate_inp.bias", "mlp.router.bias"), m.experts));
    const std::int64_t ffn_bias = std::int64_t{m.experts} * m.ffn;
    PLUMB_ASSIGN(w.down_bias, read_.vector(name("ffn_down_exps.bias", "mlp.experts.down_proj_bias"),
                                           std::int64_t{m.experts} * spec_.hidden));
    if (gguf_) {
      PLUMB_ASSIGN(w.gate, read_.matrix(prefix_ + "ffn_gate_exps.weight", m.ffn, spec_.hidden, m.experts));
      PLUMB_ASSIGN(w.up, read_.matrix(prefix_ + "ffn_up_exps.weight", m.ffn, spec_.hidden, m.experts));
      PLUMB_ASSIGN(w.down, read_.matrix(prefix_ + "ffn_down_exps.weight", spec_.hidden, m.ffn, m.experts));
      PLUMB_ASSIGN(w.gate_bias, read_.vector(prefix_ + "ffn_gate_exps.bias", ffn_bias));
      PLUMB_ASSIGN(w.up_bias, read_.vector(prefix_ + "ffn_up_exps.bias", ffn_bias));
      return w;
    }
    PLUMB_ASSIGN(const MatrixWeight gate_up,
                 read_.split_mxfp4(prefix_ + "mlp.experts.gate_up_proj", m.experts, std::int64_t{2} * m.ffn, spec_.hidden));
    w.gate = interleaved(gate_up, 0);
    w.up = interleaved(gate_up, 1);
    PLUMB_ASSIGN(w.down, read_.split_mxfp4(prefix_ + "mlp.experts.down_proj", m.experts, spec_.hidden, m.ffn));
    PLUMB_ASSIGN(const VectorWeight both, read_.vector(prefix_ + "mlp.experts.gate_up_proj_bias", 2 * ffn_bias));
    w.gate_bias.name = both.name + ".gate";
    w.up_bias.name = both.name + ".up";
    for (std::size_t i = 0; i < both.values.size(); i += 2) {
      w.gate_bias.values.push_back(both.values[i]);
      w.up_bias.values.push_back(both.values[i + 1]);
    }
    return w;
  }

  bool gguf_;
  const DecoderSpec& spec_;
  TensorReader read_;
  std::string prefix_;
};

Result<DecoderWeights> read_gpt_oss_weights(const format::Checkpoint& checkpoint, const DecoderSpec& spec) {
  return GptOssWeights(checkpoint, spec).run();
}

}  // namespace

const Architecture kGptOss{"gpt_oss", "gpt_oss", "gpt-oss", &read_gpt_oss_spec, &read_gpt_oss_weights};

}  // namespace plumb::model
