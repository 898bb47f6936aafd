#include "gpt_oss_gguf.h"

#include <string>
#include <vector>

#include "base/check.h"

namespace plumb::app {
namespace {

std::vector<std::string_view> views(const std::vector<std::string>& strings) { return {strings.begin(), strings.end()}; }

}  // namespace

std::uint32_t gguf_file_type(DType type) {
  switch (type) {
    case DType::f32: return static_cast<std::uint32_t>(GgufFileType::all_f32);
    case DType::f16: return 1;
    case DType::q4_0: return 2;
    case DType::q4_1: return 3;
    case DType::q8_0: return 7;
    case DType::q4_k: return 14;
    case DType::q5_k: return 16;
    case DType::q6_k: return 18;
    case DType::iq4_nl: return 25;
    case DType::bf16: return 32;
    case DType::mxfp4: return static_cast<std::uint32_t>(GgufFileType::mostly_mxfp4_moe);
    case DType::nvfp4: return 39;
    default: return 1024;  // readers guess it from the tensors
  }
}

void add_gpt_oss_keys(format::GgufKeys& keys, const Geometry& g, std::string_view name, std::optional<std::uint32_t> file_type) {
  PLUMB_CHECK(g.alternates());
  const std::string a = "gpt-oss.";
  const auto count = [&](const char* key, std::uint64_t value) { keys.add(a + key, static_cast<std::uint32_t>(value)); };
  const auto real = [&](const char* key, double value) { keys.add(a + key, static_cast<float>(value)); };
  keys.add_string("general.architecture", "gpt-oss");
  keys.add_string("general.type", "model");
  keys.add_string("general.name", name);
  keys.add("general.file_type", file_type.value_or(gguf_file_type(DType::mxfp4)));
  keys.add("general.quantization_version", kGgufQuantizationVersion);
  count("block_count", g.layers);
  count("context_length", g.max_positions);
  count("embedding_length", g.hidden);
  count("feed_forward_length", g.ffn);
  count("attention.head_count", g.heads);
  count("attention.head_count_kv", g.kv_heads);
  count("attention.key_length", g.head_dim);
  count("attention.value_length", g.head_dim);
  count("attention.sliding_window", g.window);
  real("attention.layer_norm_rms_epsilon", g.norm_eps);
  count("expert_count", g.experts);
  count("expert_used_count", g.top_k);
  count("expert_feed_forward_length", g.ffn);
  count("vocab_size", g.vocab);
  real("rope.freq_base", g.rope_theta);
  if (g.yarn_factor != 1) {
    keys.add_string(a + "rope.scaling.type", "yarn");
    real("rope.scaling.factor", g.yarn_factor);
    count("rope.scaling.original_context_length", g.yarn_original_positions);
  }
}

void add_vocabulary_keys(format::GgufKeys& keys, const VocabularyData& v) {
  const std::string t = "tokenizer.ggml.";
  keys.add_string(t + "model", v.model);
  if (!v.pre.empty()) keys.add_string(t + "pre", v.pre);
  keys.add_strings(t + "tokens", views(v.tokens));
  if (!v.scores.empty()) keys.add_array<float>(t + "scores", v.scores);
  std::vector<std::int32_t> types;
  for (const TokenType type : v.types) types.push_back(static_cast<std::int32_t>(type));
  keys.add_array<std::int32_t>(t + "token_type", types);
  if (v.model == "gpt2") keys.add_strings(t + "merges", views(v.merges));
  const auto id = [&](const char* key, std::int64_t value) {
    if (value >= 0) keys.add(t + key, static_cast<std::uint32_t>(value));
  };
  id("bos_token_id", v.bos);
  id("eos_token_id", v.eos);
  id("padding_token_id", v.pad);
  if (v.add_bos.has_value()) keys.add(t + "add_bos_token", *v.add_bos);
}

}  // namespace plumb::app
