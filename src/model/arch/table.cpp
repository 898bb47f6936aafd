#include "model/arch/table.h"

#include <fmt/format.h>

#include <array>

#include "kernels/api/gated_delta.h"

namespace plumb::model {
namespace {

// The one visible list of families.
constexpr std::array<const Architecture*, 3> kArchitectures{&kGptOss, &kLlama, &kPlumbHybrid};

Result<const Architecture*> find(const format::Checkpoint& checkpoint, const format::Config& config) {
  const bool gguf = checkpoint.container() == format::Container::gguf;
  const char* key = gguf ? "general.architecture" : "model_type";
  PLUMB_ASSIGN(const std::string name, config.require_string(key));
  std::string known;
  for (const Architecture* a : kArchitectures) {
    const char* theirs = gguf ? a->gguf_name : a->hf_type;
    if (theirs == nullptr) continue;
    if (name == theirs) return a;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", theirs);
  }
  return fail(ErrorCode::unsupported, fmt::format("no such model family; known are {}", known), config.subject(), key, name);
}

Status check_attention(const format::Config& config, const AttentionSpec& a, const std::string& where) {
  const auto bad = [&](std::string what, std::int64_t value) {
    return fail(ErrorCode::malformed, std::move(what), config.subject(), where, std::to_string(value));
  };
  if (a.head_dim < 8 || a.head_dim > 512 || a.head_dim % 8 != 0) {
    return bad("head_dim must be a multiple of 8 from 8 to 512", a.head_dim);
  }
  if (a.kv_heads < 1) return bad("there must be at least one KV head", a.kv_heads);
  if (a.q_heads < 1 || a.q_heads % a.kv_heads != 0) {
    return bad("query heads must be a multiple of the KV heads, which are " + std::to_string(a.kv_heads), a.q_heads);
  }
  if (a.rope.rotary_dims < 2 || a.rope.rotary_dims % 2 != 0 || a.rope.rotary_dims > a.head_dim) {
    return bad("rotated dimensions must be even and at most head_dim", a.rope.rotary_dims);
  }
  return {};
}

Status check_recurrent(const format::Config& config, const RecurrentSpec& r, const std::string& where) {
  const auto bad = [&](std::string what, std::int64_t value) {
    return fail(ErrorCode::malformed, std::move(what), config.subject(), where, std::to_string(value));
  };
  if (r.heads < 1) return bad("there must be at least one recurrent head", r.heads);
  for (const std::int32_t dim : {r.key_dim, r.value_dim}) {
    if (dim < 1 || dim > kernels::kMaxStateDim) {
      return bad(fmt::format("key and value dimensions of a recurrent head must be from 1 to {}", kernels::kMaxStateDim), dim);
    }
  }
  return {};
}

Status check_spec(const format::Config& config, const DecoderSpec& spec) {
  if (spec.layers.empty()) return fail(ErrorCode::malformed, "the model has no layers", config.subject(), "layers", "0");
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    const std::string where = fmt::format("layer {}", i);
    if (const auto* a = std::get_if<AttentionSpec>(&spec.layers[i].mixer)) PLUMB_TRY(check_attention(config, *a, where));
    if (const auto* r = std::get_if<RecurrentSpec>(&spec.layers[i].mixer)) PLUMB_TRY(check_recurrent(config, *r, where));
    if (const auto* m = std::get_if<MoeSpec>(&spec.layers[i].ffn)) {
      if (m->top_k < 1 || m->top_k > m->experts) {
        return fail(ErrorCode::malformed, fmt::format("experts per token must be from 1 to the {} experts", m->experts),
                    config.subject(), where, std::to_string(m->top_k));
      }
    }
  }
  return {};
}

}  // namespace

std::span<const Architecture* const> all_architectures() { return kArchitectures; }

Result<format::Config> read_config(const format::Checkpoint& checkpoint) {
  if (checkpoint.container() == format::Container::gguf) {
    return format::Config::from_metadata(checkpoint.metadata(), checkpoint.subject());
  }
  return format::Config::from_file(checkpoint.directory() + "/config.json");
}

Result<DecoderSpec> read_spec(const format::Checkpoint& checkpoint) {
  PLUMB_ASSIGN(const format::Config config, read_config(checkpoint));
  PLUMB_ASSIGN(const Architecture* family, find(checkpoint, config));
  PLUMB_ASSIGN(DecoderSpec spec, family->read_spec(checkpoint, config));
  PLUMB_TRY(check_spec(config, spec));
  return spec;
}

Result<DecoderWeights> read_weights(const format::Checkpoint& checkpoint, const DecoderSpec& spec) {
  for (const Architecture* a : kArchitectures) {
    if (spec.family == a->family) return a->read_weights(checkpoint, spec);
  }
  return fail(ErrorCode::unsupported, "no such model family", checkpoint.subject(), "family", spec.family);
}

}  // namespace plumb::model
