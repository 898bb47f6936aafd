// Llama: RMSNorm, rotary grouped-query attention, SwiGLU, optionally tied embeddings. Touvron et al., arXiv 2302.13971.
//
// Pairing of the rotation: Hugging Face checkpoints have q and k permuted for halves; GGUF keeps the original adjacent pairs,
// and so do llama2.c files converted to GGUF.
#include <fmt/format.h>

#include <cmath>

#include "model/arch/common.h"
#include "model/arch/table.h"
#include "model/tensor_reader.h"

namespace plumb::model {
namespace {

constexpr std::uint64_t kMaxSize = 1U << 20;

struct Sizes {
  std::int32_t layers, heads, kv_heads, head_dim, ffn;
};

void add_layers(DecoderSpec& spec, const Sizes& s, bool bias, const RopeSpec& rope) {
  const AttentionSpec attention{.head_dim = s.head_dim,
                                .q_heads = s.heads,
                                .kv_heads = s.kv_heads,
                                .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(s.head_dim))),
                                .bias = bias,
                                .out_bias = bias,
                                .rope = rope};
  const DenseSpec dense{.ffn = s.ffn, .glu = {kernels::GluKind::silu}};
  spec.layers.assign(static_cast<std::size_t>(s.layers), LayerSpec{attention, dense});
}

Result<DecoderSpec> spec_from_hf(const format::Config& c) {
  DecoderSpec spec{.family = "llama"};
  PLUMB_ASSIGN(spec.vocab, size(c, "vocab_size"));
  PLUMB_ASSIGN(spec.hidden, size(c, "hidden_size", 8, kMaxSize));
  PLUMB_ASSIGN(const double eps, c.optional_real("rms_norm_eps", 1e-6, {1e-12, 1.0}));
  spec.norm_eps = static_cast<float>(eps);
  PLUMB_ASSIGN(spec.max_positions, size_or(c, "max_position_embeddings", 2048));
  PLUMB_ASSIGN(spec.tied_head, c.optional_bool("tie_word_embeddings", false));
  PLUMB_ASSIGN(const bool bias, c.optional_bool("attention_bias", false));
  Sizes s{};
  PLUMB_ASSIGN(s.layers, size(c, "num_hidden_layers", 1, 4096));
  PLUMB_ASSIGN(s.heads, size(c, "num_attention_heads", 1, 4096));
  PLUMB_ASSIGN(s.kv_heads, size_or(c, "num_key_value_heads", static_cast<std::uint64_t>(s.heads), 1, 4096));
  PLUMB_ASSIGN(s.head_dim, size_or(c, "head_dim", static_cast<std::uint64_t>(spec.hidden / s.heads), 8, 512));
  PLUMB_ASSIGN(s.ffn, size(c, "intermediate_size", 1, kMaxSize));
  PLUMB_ASSIGN(const RopeSpec rope, read_hf_rope(c, s.head_dim, true));
  add_layers(spec, s, bias, rope);
  return spec;
}

Result<DecoderSpec> spec_from_gguf(const format::Checkpoint& checkpoint, const format::Config& c) {
  const std::string a = "llama";
  DecoderSpec spec{.family = "llama"};
  PLUMB_ASSIGN(const format::TensorView* embedding, checkpoint.require("token_embd.weight"));
  if (embedding->shape.size() != 2 || embedding->shape[0] == 0 || embedding->shape[0] > (1U << 24)) {
    return fail(ErrorCode::shape_mismatch, "the embedding must be [vocabulary][hidden]", checkpoint.subject(), embedding->name,
                format::shape_text(embedding->shape));
  }
  spec.vocab = static_cast<std::int32_t>(embedding->shape[0]);
  PLUMB_ASSIGN(spec.hidden, size(c, a + ".embedding_length", 8, kMaxSize));
  PLUMB_ASSIGN(const double eps, c.require_real(a + ".attention.layer_norm_rms_epsilon", {1e-12, 1.0}));
  spec.norm_eps = static_cast<float>(eps);
  PLUMB_ASSIGN(spec.max_positions, size(c, a + ".context_length"));
  spec.tied_head = checkpoint.find("output.weight") == nullptr;
  Sizes s{};
  PLUMB_ASSIGN(s.layers, size(c, a + ".block_count", 1, 4096));
  PLUMB_ASSIGN(s.heads, size(c, a + ".attention.head_count", 1, 4096));
  PLUMB_ASSIGN(s.kv_heads, size_or(c, a + ".attention.head_count_kv", static_cast<std::uint64_t>(s.heads), 1, 4096));
  PLUMB_ASSIGN(s.head_dim, size_or(c, a + ".attention.key_length", static_cast<std::uint64_t>(spec.hidden / s.heads), 8, 512));
  PLUMB_ASSIGN(s.ffn, size(c, a + ".feed_forward_length", 1, kMaxSize));
  PLUMB_ASSIGN(RopeSpec rope, read_gguf_rope(c, a, s.head_dim, 10000.0, true));
  rope.pairing = kernels::RopePairing::adjacent;
  add_layers(spec, s, checkpoint.find("blk.0.attn_q.bias") != nullptr, rope);
  return spec;
}

Result<DecoderSpec> read_llama_spec(const format::Checkpoint& checkpoint, const format::Config& config) {
  if (checkpoint.container() == format::Container::gguf) return spec_from_gguf(checkpoint, config);
  return spec_from_hf(config);
}

Result<LayerWeights> read_layer(TensorReader& read, const DecoderSpec& spec, const LayerSpec& layer, std::size_t index, bool gguf) {
  const std::string prefix = gguf ? fmt::format("blk.{}.", index) : fmt::format("model.layers.{}.", index);
  const auto name = [&](const char* in_gguf, const char* in_hf) { return prefix + (gguf ? in_gguf : in_hf); };
  const auto& a = std::get<AttentionSpec>(layer.mixer);
  const std::int32_t ffn = std::get<DenseSpec>(layer.ffn).ffn;
  const std::int64_t q = std::int64_t{a.q_heads} * a.head_dim;
  const std::int64_t kv = std::int64_t{a.kv_heads} * a.head_dim;
  LayerWeights w;
  PLUMB_ASSIGN(w.mixer_norm, read.vector(name("attn_norm.weight", "input_layernorm.weight"), spec.hidden));
  PLUMB_ASSIGN(w.ffn_norm, read.vector(name("ffn_norm.weight", "post_attention_layernorm.weight"), spec.hidden));
  AttentionWeights mixer;
  PLUMB_ASSIGN(mixer.q, read.matrix(name("attn_q.weight", "self_attn.q_proj.weight"), q, spec.hidden));
  PLUMB_ASSIGN(mixer.k, read.matrix(name("attn_k.weight", "self_attn.k_proj.weight"), kv, spec.hidden));
  PLUMB_ASSIGN(mixer.v, read.matrix(name("attn_v.weight", "self_attn.v_proj.weight"), kv, spec.hidden));
  PLUMB_ASSIGN(mixer.o, read.matrix(name("attn_output.weight", "self_attn.o_proj.weight"), spec.hidden, q));
  if (a.bias) {
    PLUMB_ASSIGN(mixer.q_bias, read.vector(name("attn_q.bias", "self_attn.q_proj.bias"), q));
    PLUMB_ASSIGN(mixer.k_bias, read.vector(name("attn_k.bias", "self_attn.k_proj.bias"), kv));
    PLUMB_ASSIGN(mixer.v_bias, read.vector(name("attn_v.bias", "self_attn.v_proj.bias"), kv));
    PLUMB_ASSIGN(mixer.o_bias, read.vector(name("attn_output.bias", "self_attn.o_proj.bias"), spec.hidden));
  }
  w.mixer = std::move(mixer);
  DenseWeights dense;
  PLUMB_ASSIGN(dense.gate, read.matrix(name("ffn_gate.weight", "mlp.gate_proj.weight"), ffn, spec.hidden));
  PLUMB_ASSIGN(dense.up, read.matrix(name("ffn_up.weight", "mlp.up_proj.weight"), ffn, spec.hidden));
  PLUMB_ASSIGN(dense.down, read.matrix(name("ffn_down.weight", "mlp.down_proj.weight"), spec.hidden, ffn));
  w.ffn = std::move(dense);
  return w;
}

Result<DecoderWeights> read_llama_weights(const format::Checkpoint& checkpoint, const DecoderSpec& spec) {
  const bool gguf = checkpoint.container() == format::Container::gguf;
  TensorReader read(checkpoint);
  DecoderWeights w;
  PLUMB_ASSIGN(w.embedding, read.matrix(gguf ? "token_embd.weight" : "model.embed_tokens.weight", spec.vocab, spec.hidden));
  PLUMB_ASSIGN(w.final_norm, read.vector(gguf ? "output_norm.weight" : "model.norm.weight", spec.hidden));
  const char* head = gguf ? "output.weight" : "lm_head.weight";
  if (spec.tied_head) {
    w.head = w.embedding;
    read.ignore(head);  // some writers store the tied matrix twice
  } else {
    PLUMB_ASSIGN(w.head, read.matrix(head, spec.vocab, spec.hidden));
  }
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    PLUMB_ASSIGN(LayerWeights layer, read_layer(read, spec, spec.layers[i], i, gguf));
    w.layers.push_back(std::move(layer));
  }
  PLUMB_TRY(read.finish());
  return w;
}

}  // namespace

const Architecture kLlama{"llama", "llama", "llama", &read_llama_spec, &read_llama_weights};

}  // namespace plumb::model
