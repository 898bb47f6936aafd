#include "synth_hf.h"

#include <nlohmann/json.hpp>

#include "base/output_file.h"
#include "base/status.h"
#include "text/vocab_source.h"

namespace plumb::app {
namespace {

using nlohmann::ordered_json;

const char* dtype_text(DType dtype) {
  return dtype == DType::bf16 ? "bfloat16" : dtype == DType::f16 ? "float16" : "float32";
}

ordered_json layer_types_of(const Geometry& g) {
  ordered_json types = ordered_json::array();
  for (std::size_t i = 0; i < g.layers; ++i) {
    types.push_back(g.recurrent[i] ? "recurrent" : g.sliding[i] ? "sliding_attention" : "full_attention");
  }
  return types;
}

ordered_json hybrid_document(const Geometry& g, const VocabularyData& v, DType dtype) {
  return {{"architectures", {"PlumbHybridForCausalLM"}},
          {"model_type", "plumb_hybrid"},
          {"hidden_act", "silu"},
          {"hidden_size", g.hidden},
          {"intermediate_size", g.ffn},
          {"num_hidden_layers", g.layers},
          {"layer_types", layer_types_of(g)},
          {"num_attention_heads", g.heads},
          {"num_key_value_heads", g.kv_heads},
          {"head_dim", g.head_dim},
          {"sliding_window", g.window},
          {"recurrent_heads", g.recurrent_heads},
          {"recurrent_key_dim", g.key_dim},
          {"recurrent_value_dim", g.value_dim},
          {"rms_norm_eps", g.norm_eps},
          {"rope_theta", g.rope_theta},
          {"max_position_embeddings", g.max_positions},
          {"tie_word_embeddings", false},
          {"vocab_size", g.vocab},
          {"torch_dtype", dtype_text(dtype)},
          {"bos_token_id", v.bos},
          {"eos_token_id", v.eos},
          {"pad_token_id", v.pad}};
}

ordered_json gpt_oss_document(const Geometry& g, const VocabularyData& v, DType dtype) {
  return {{"architectures", {"GptOssForCausalLM"}},
          {"model_type", "gpt_oss"},
          {"attention_bias", true},
          {"attention_dropout", 0.0},
          {"hidden_act", "silu"},
          {"hidden_size", g.hidden},
          {"intermediate_size", g.ffn},
          {"num_hidden_layers", g.layers},
          {"num_attention_heads", g.heads},
          {"num_key_value_heads", g.kv_heads},
          {"head_dim", g.head_dim},
          {"num_local_experts", g.experts},
          {"num_experts_per_tok", g.top_k},
          {"experts_per_token", g.top_k},
          {"layer_types", layer_types_of(g)},
          {"sliding_window", g.window},
          {"rms_norm_eps", g.norm_eps},
          {"rope_theta", g.rope_theta},
          {"max_position_embeddings", g.max_positions},
          {"initial_context_length", g.yarn_original_positions},
          {"swiglu_limit", 7.0},
          {"rope_scaling",
           {{"rope_type", "yarn"},
            {"factor", g.yarn_factor},
            {"original_max_position_embeddings", g.yarn_original_positions},
            {"beta_fast", g.yarn_beta_fast},
            {"beta_slow", g.yarn_beta_slow},
            {"truncate", false}}},
          {"tie_word_embeddings", false},
          {"vocab_size", g.vocab},
          {"torch_dtype", dtype_text(dtype)},
          {"bos_token_id", v.bos},
          {"eos_token_id", v.eos},
          {"pad_token_id", v.pad},
          {"quantization_config",
           {{"quant_method", "mxfp4"},
            {"modules_to_not_convert",
             {"model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"}}}}};
}

ordered_json tokenizer_document(const VocabularyData& v) {
  ordered_json added = ordered_json::array();
  ordered_json vocab = ordered_json::object();
  // An ordered object looks keys up one by one; filled in place, 200,000 of them take no time.
  auto& entries = vocab.get_ref<ordered_json::object_t&>();
  entries.reserve(v.tokens.size());
  for (std::size_t id = 0; id < v.tokens.size(); ++id) {
    if (v.types[id] == TokenType::normal) {
      entries.emplace_back(v.tokens[id], id);
    } else {
      added.push_back({{"id", id}, {"content", v.tokens[id]}, {"single_word", false}, {"lstrip", false}, {"rstrip", false},
                       {"normalized", false}, {"special", true}});
    }
  }
  ordered_json merges = ordered_json::array();
  for (const std::string& merge : v.merges) {
    const std::size_t space = merge.find(' ');
    merges.push_back({merge.substr(0, space), merge.substr(space + 1)});
  }
  const ordered_json split = {{"type", "Split"},
                              {"pattern", {{"Regex", text::split_of_pre_tokenizer(v.pre)}}},
                              {"behavior", "Isolated"},
                              {"invert", false}};
  const ordered_json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", std::move(added)},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", std::move(vocab)},
            {"merges", std::move(merges)}}}};
}

Status write_json(const std::string& path, const ordered_json& document) {
  const std::string text = document.dump(1) + "\n";
  PLUMB_ASSIGN(OutputFile file, OutputFile::create(path));
  PLUMB_TRY(file.write(std::as_bytes(std::span(text))));
  return file.commit();
}

}  // namespace

Status write_hf_files(const std::string& folder, const Geometry& g, const VocabularyData& v, DType dtype) {
  PLUMB_TRY(write_json(folder + "/config.json", g.hybrid() ? hybrid_document(g, v, dtype) : gpt_oss_document(g, v, dtype)));
  PLUMB_TRY(write_json(folder + "/generation_config.json",
                       {{"bos_token_id", v.bos}, {"do_sample", true}, {"eos_token_id", v.all_eos}, {"pad_token_id", v.pad}}));
  PLUMB_TRY(write_json(folder + "/tokenizer_config.json",
                       {{"tokenizer_class", "PreTrainedTokenizerFast"},
                        {"bos_token", v.tokens[static_cast<std::size_t>(v.bos)]},
                        {"eos_token", v.tokens[static_cast<std::size_t>(v.eos)]},
                        {"pad_token", v.tokens[static_cast<std::size_t>(v.pad)]},
                        {"clean_up_tokenization_spaces", false},
                        {"model_max_length", g.max_positions}}));
  return write_json(folder + "/tokenizer.json", tokenizer_document(v));
}

}  // namespace plumb::app
