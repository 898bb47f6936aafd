// DecoderSpec: one decoder model as data. Architectures are read into it, lowering walks it once, and nothing else in Plumb
// knows a model by name.
//
// Every layer carries its own mixer and feed-forward spec: models with layers of different kinds, windows or widths are the
// normal case. What a checkpoint says is never assumed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "kernels/api/glu.h"
#include "kernels/api/rope.h"

namespace plumb::model {

// YaRN, Peng et al., arXiv 2309.00071. With `truncate` the ramp limits are floored and ceiled to whole dimensions; gpt-oss
// is trained without.
struct YarnSpec {
  float factor = 1;
  std::int32_t original_positions = 0;
  float beta_fast = 32;
  float beta_slow = 1;
  bool truncate = true;
};

struct RopeSpec {
  double theta = 10000;
  std::int32_t rotary_dims = 0;  // dimensions of a head that are rotated; even
  kernels::RopePairing pairing = kernels::RopePairing::halves;
  std::optional<YarnSpec> yarn;
  float linear_factor = 1;  // positions divided by this ("linear" scaling)
  bool operator==(const RopeSpec&) const;
};

// Radians per position of each rotated pair, [rotary_dims / 2], rounded to float32 as the reference implementation does.
std::vector<float> rope_frequencies(const RopeSpec& rope);
// The factor on cos and sin: 0.1 ln(factor) + 1 under YaRN, else 1.
float rope_concentration(const RopeSpec& rope);

struct AttentionSpec {
  std::int32_t window = 0;    // keys visible iff 0 <= q - k < window; 0: full
  std::int32_t head_dim = 0;  // multiple of 8
  std::int32_t q_heads = 0;   // multiple of kv_heads
  std::int32_t kv_heads = 0;
  float scale = 0;            // 1 / sqrt(head_dim) unless the checkpoint says otherwise
  float softcap = 0;          // 0: none
  bool sinks = false;
  bool qk_norm = false;
  bool bias = false;          // q, k, v biases
  bool out_bias = false;
  RopeSpec rope;
};

// A linear-recurrent mixer, the gated delta rule (kernels/api/gated_delta.h). It sees the past only through its state, per
// sequence [heads][key_dim][value_dim] f32, and knows no positions.
struct RecurrentSpec {
  std::int32_t heads = 0;
  std::int32_t key_dim = 0;
  std::int32_t value_dim = 0;
};

using MixerSpec = std::variant<AttentionSpec, RecurrentSpec>;

struct DenseSpec {
  std::int32_t ffn = 0;
  kernels::GluSpec glu;
};

struct MoeSpec {
  std::int32_t experts = 0;
  std::int32_t top_k = 0;
  std::int32_t ffn = 0;
  bool router_bias = false;
  bool expert_bias = false;
  kernels::GluSpec glu;
};

using FfnSpec = std::variant<DenseSpec, MoeSpec>;

struct LayerSpec {
  MixerSpec mixer;
  FfnSpec ffn;
};

struct DecoderSpec {
  std::string family;  // "gpt_oss", "llama": a row of arch/table.cpp
  std::int32_t vocab = 0;
  std::int32_t hidden = 0;
  float norm_eps = 1e-5F;
  std::int32_t max_positions = 0;
  bool tied_head = false;  // the head is the embedding table
  std::vector<LayerSpec> layers;
};

// The distinct attention windows of a model in order of first appearance: its layer classes.
std::vector<std::int32_t> layer_classes(const DecoderSpec& spec);
// The class of a window. REQUIRES: the window is one of `classes`.
std::size_t class_of(const std::vector<std::int32_t>& classes, std::int32_t window);

// Does any layer keep a state per sequence, beside or instead of keys and values?
bool has_recurrent(const DecoderSpec& spec);
// Bytes of one sequence's state over all recurrent layers; 0 without any.
std::uint64_t recurrent_state_bytes(const DecoderSpec& spec);

// "attention_full", "attention_sliding", "recurrent": static strings for tags and tables.
const char* mixer_class(const MixerSpec& mixer);

}  // namespace plumb::model
