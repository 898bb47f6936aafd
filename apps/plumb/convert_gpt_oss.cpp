// gpt-oss from the Hugging Face layout to the ggml-org one.
#include <fmt/format.h>

#include <utility>

#include "base/blocks.h"
#include "base/status.h"
#include "conversion.h"
#include "convert_fill.h"
#include "geometry.h"
#include "gpt_oss_gguf.h"
#include "hf_vocabulary.h"
#include "model/arch/table.h"

namespace plumb::app {
namespace {

using format::TensorView;

// What the container has no key for must have the value its readers assume.
Result<Geometry> geometry_of(const model::DecoderSpec& spec, const std::string& subject) {
  const auto refuse = [&](const char* field, const std::string& why, const std::string& value) {
    return fail(ErrorCode::unsupported, "a gpt-oss GGUF file cannot say it: " + why, subject, field, value);
  };
  if (spec.layers.empty()) return refuse("num_hidden_layers", "at least one layer", "0");
  const auto& first = std::get<model::AttentionSpec>(spec.layers.front().mixer);
  const auto& moe = std::get<model::MoeSpec>(spec.layers.front().ffn);
  Geometry g;
  const auto count = [](std::int32_t value) { return static_cast<std::uint64_t>(value); };
  g.layers = spec.layers.size();
  g.hidden = count(spec.hidden);
  g.heads = count(first.q_heads);
  g.kv_heads = count(first.kv_heads);
  g.head_dim = count(first.head_dim);
  g.experts = count(moe.experts);
  g.top_k = count(moe.top_k);
  g.ffn = count(moe.ffn);
  g.vocab = count(spec.vocab);
  g.max_positions = count(spec.max_positions);
  g.norm_eps = spec.norm_eps;
  for (const model::LayerSpec& layer : spec.layers) {
    const std::int32_t window = std::get<model::AttentionSpec>(layer.mixer).window;
    g.sliding.push_back(window > 0);
    if (window > 0) g.window = count(window);
  }
  if (!g.alternates()) return refuse("layer_types", "even layers are sliding, odd ones full", "another pattern");
  if (moe.glu.limit != 7.0F) return refuse("swiglu_limit", "it is 7", fmt::format("{}", moe.glu.limit));
  g.rope_theta = first.rope.theta;
  if (first.rope.linear_factor != 1.0F) return refuse("rope_scaling", "it is yarn, or none", "linear");
  g.yarn_factor = 1;
  if (first.rope.yarn.has_value()) {
    const model::YarnSpec& yarn = *first.rope.yarn;
    if (yarn.truncate) return refuse("rope_scaling.truncate", "it is false", "true");
    if (yarn.beta_fast != 32.0F) return refuse("rope_scaling.beta_fast", "it is 32", fmt::format("{}", yarn.beta_fast));
    if (yarn.beta_slow != 1.0F) return refuse("rope_scaling.beta_slow", "it is 1", fmt::format("{}", yarn.beta_slow));
    g.yarn_factor = yarn.factor;
    g.yarn_original_positions = count(yarn.original_positions);
  }
  return g;
}

class Mover {
 public:
  Mover(const format::Checkpoint& checkpoint, const ConvertOptions& options, Conversion& out)
      : checkpoint_(checkpoint), options_(options), out_(out) {}

  Status run(const Geometry& g, bool bias, bool tied) {
    PLUMB_TRY(matrix("token_embd.weight", "model.embed_tokens.weight"));
    for (std::uint64_t i = 0; i < g.layers; ++i) PLUMB_TRY(layer(g, bias, fmt::format("blk.{}.", i), fmt::format("model.layers.{}.", i)));
    PLUMB_TRY(widened("output_norm.weight", "model.norm.weight"));
    if (!tied) PLUMB_TRY(matrix("output.weight", "lm_head.weight"));
    return {};
  }

 private:
  Status layer(const Geometry& g, bool bias, const std::string& to, const std::string& from) {
    PLUMB_TRY(widened(to + "attn_norm.weight", from + "input_layernorm.weight"));
    for (const char* part : {"q", "k", "v", "output"}) {
      const std::string gguf = to + "attn_" + part;
      const std::string hf = from + "self_attn." + (part == std::string("output") ? "o" : part) + "_proj";
      PLUMB_TRY(matrix(gguf + ".weight", hf + ".weight"));
      if (bias) PLUMB_TRY(widened(gguf + ".bias", hf + ".bias"));
    }
    PLUMB_TRY(widened(to + "attn_sinks.weight", from + "self_attn.sinks"));
    PLUMB_TRY(widened(to + "post_attention_norm.weight", from + "post_attention_layernorm.weight"));
    for (const char* part : {".weight", ".bias"}) PLUMB_TRY(widened(to + "ffn_gate_inp" + part, from + "mlp.router" + part));
    const std::string experts = from + "mlp.experts.";
    for (std::uint64_t way = 0; way < 2; ++way) {
      const std::string gguf = to + (way == 0 ? "ffn_gate_exps" : "ffn_up_exps");
      PLUMB_TRY(experts_of(gguf + ".weight", experts + "gate_up_proj", {g.experts, g.ffn, g.hidden}, 2, way));
      PLUMB_TRY(vector(gguf + ".bias", experts + "gate_up_proj_bias", {g.experts, g.ffn}, 2, way));
    }
    PLUMB_TRY(experts_of(to + "ffn_down_exps.weight", experts + "down_proj", {g.experts, g.hidden, g.ffn}, 1, 0));
    return vector(to + "ffn_down_exps.bias", experts + "down_proj_bias", {g.experts, g.hidden}, 1, 0);
  }

  // A matrix in the type asked for, or as it is.
  Status matrix(const std::string& to, const std::string& from) {
    PLUMB_ASSIGN(const TensorView* view, plain(from));
    const DType type = options_.matrices.value_or(view->dtype);
    const std::uint64_t block = dtype_info(type).block_elements;
    if (view->shape.back() % block != 0) {
      return fail(ErrorCode::unsupported, fmt::format("{} stores blocks of {}; choose another --attn", to_string(type), block),
                  checkpoint_.subject(), from, format::shape_text(view->shape));
    }
    return add(to, *view, type, view->shape, 1, 0);
  }
  Status widened(const std::string& to, const std::string& from) {
    PLUMB_ASSIGN(const TensorView* view, plain(from));
    return add(to, *view, DType::f32, view->shape, 1, 0);
  }
  Status vector(const std::string& to, const std::string& from, std::vector<std::uint64_t> shape, std::uint64_t ways, std::uint64_t way) {
    PLUMB_ASSIGN(const TensorView* view, plain(from));
    return add(to, *view, DType::f32, std::move(shape), ways, way);
  }

  Status add(const std::string& to, const TensorView& view, DType type, std::vector<std::uint64_t> shape, std::uint64_t ways,
             std::uint64_t way) {
    const auto refusal = std::make_shared<std::atomic<bool>>(false);
    out_.add({to, type, std::move(shape), dtype_info(type).block_bytes,
              element_fill({view.data, view.dtype, ways, way}, type, refusal)},
             {view.name, view.dtype, ways == 1 ? action_of(view.dtype, type) : "deinterleaved"}, refusal);
    return {};
  }

  Status experts_of(const std::string& to, const std::string& from, std::vector<std::uint64_t> shape, std::uint64_t ways, std::uint64_t way) {
    PLUMB_ASSIGN(const TensorView* codes, checkpoint_.require(from + "_blocks"));
    PLUMB_ASSIGN(const TensorView* scales, checkpoint_.require(from + "_scales"));
    if (way == 0) PLUMB_TRY(format::reject_nan_scales(*scales, checkpoint_.subject()));
    const std::uint64_t row_blocks = shape.back() / blocks::kBlock;
    out_.add({to, DType::mxfp4, std::move(shape), row_blocks * blocks::kMxfp4Bytes,
              mxfp4_fill({codes->data, scales->data, row_blocks, ways, way})},
             {codes->name, codes->dtype, ways == 1 ? "renibbled" : "deinterleaved"});
    return {};
  }

  Result<const TensorView*> plain(const std::string& name) {
    PLUMB_ASSIGN(const TensorView* view, checkpoint_.require(name));
    for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
      if (view->dtype == type) return view;
    }
    return fail(ErrorCode::unsupported, "must be f32, f16 or bf16", checkpoint_.subject(), name, std::string(to_string(view->dtype)));
  }

  const format::Checkpoint& checkpoint_;
  const ConvertOptions& options_;
  Conversion& out_;
};

}  // namespace

void Conversion::add(TensorJob job, Origin origin, Refusal refusal) {
  jobs.push_back(std::move(job));
  origins.push_back(std::move(origin));
  refusals.push_back(std::move(refusal));
  errors.emplace_back();
}

Result<Conversion> convert_gpt_oss(const format::Checkpoint& checkpoint, const ConvertOptions& options) {
  PLUMB_ASSIGN(const model::DecoderSpec spec, model::read_spec(checkpoint));
  if (spec.family != "gpt_oss" || checkpoint.container() != format::Container::safetensors) {
    return fail(ErrorCode::unsupported, "only gpt-oss in the Hugging Face layout is converted", checkpoint.subject(), "family", spec.family);
  }
  // Every tensor is there, in its shape, and no other.
  PLUMB_ASSIGN(const model::DecoderWeights weights, model::read_weights(checkpoint, spec));
  PLUMB_ASSIGN(const Geometry geometry, geometry_of(spec, checkpoint.subject()));
  PLUMB_ASSIGN(const VocabularyData vocabulary, read_hf_vocabulary(checkpoint, geometry.vocab));
  Conversion out;
  out.family = spec.family;
  out.tokens = vocabulary.tokens.size();
  add_gpt_oss_keys(out.keys, geometry, options.name, options.file_type);
  add_vocabulary_keys(out.keys, vocabulary);
  const bool bias = std::get<model::AttentionSpec>(spec.layers.front().mixer).bias;
  PLUMB_TRY(Mover(checkpoint, options, out).run(geometry, bias, spec.tied_head));
  return out;
}

}  // namespace plumb::app
