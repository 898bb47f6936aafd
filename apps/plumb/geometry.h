// The numbers that fix a model: of the gpt-oss architecture, what synth makes up and what convert reads; of our own hybrid
// family, what synth makes up.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "plumb/status.h"

namespace plumb::app {

struct Geometry {
  std::uint64_t layers = 0;
  std::uint64_t hidden = 0;
  std::uint64_t heads = 0;      // query heads
  std::uint64_t kv_heads = 0;
  std::uint64_t head_dim = 0;
  std::uint64_t experts = 0;    // 0: dense, as hybrid layers are
  std::uint64_t top_k = 0;
  std::uint64_t ffn = 0;        // of one expert
  std::uint64_t vocab = 0;
  std::uint64_t window = 0;     // of the sliding layers
  std::vector<bool> sliding;    // per layer
  // The hybrid family only: which layers are recurrent (they are not sliding), and their heads.
  std::vector<bool> recurrent;
  std::uint64_t recurrent_heads = 0;
  std::uint64_t key_dim = 0;
  std::uint64_t value_dim = 0;
  std::uint64_t max_positions = 131072;
  double norm_eps = 1e-5;
  double rope_theta = 150000;
  double yarn_factor = 32;
  std::uint64_t yarn_original_positions = 4096;
  double yarn_beta_fast = 32;
  double yarn_beta_slow = 1;

  std::uint64_t q_width() const { return heads * head_dim; }
  std::uint64_t kv_width() const { return kv_heads * head_dim; }
  bool hybrid() const { return recurrent_heads > 0; }
  std::uint64_t key_width() const { return recurrent_heads * key_dim; }
  std::uint64_t value_width() const { return recurrent_heads * value_dim; }
  // Even layers sliding, odd layers full: the period that readers of gpt-oss GGUF files assume.
  bool alternates() const;
};

// Element types of what is not an expert, a norm, a bias, a sink or a router.
struct MatrixTypes {
  DType attention = DType::q8_0;
  DType embedding = DType::q8_0;  // and the head
};

struct Preset {
  std::string_view name;
  std::string_view help;
  Geometry geometry;  // `sliding` and `recurrent` empty
  std::string_view layer_types = "sliding,full";
};

std::vector<Preset> presets();

// Parameters in all, and those that one token passes through.
std::uint64_t parameter_count(const Geometry& geometry);
std::uint64_t active_parameter_count(const Geometry& geometry);

// Relations that a single option's range cannot say. Errors: usage_error naming the option.
Status check_geometry(const Geometry& geometry, const MatrixTypes& types);

}  // namespace plumb::app
