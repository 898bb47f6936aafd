// What a model costs, from its spec and the description of its weights: parameters, memory, bytes read per token.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kv/layout.h"
#include "model/spec.h"
#include "model/weights.h"
#include "plumb/status.h"

namespace plumb::app {

struct WeightClass {
  const char* name = "";
  std::uint64_t parameters = 0;
  std::uint64_t bytes = 0;            // as the engine holds them: matrices as stored, vectors in float32
  std::uint64_t bytes_per_token = 0;  // read to decode one token: top_k of the experts, one row of the embedding
};

struct KvClassFacts {
  const char* name = "";               // "attention_full", "attention_sliding"
  std::int32_t window = 0;             // 0: full
  std::int32_t layers = 0;
  std::uint64_t bytes_per_position = 0;  // K and V over all layers of the class
  std::uint64_t bytes_at_context = 0;    // pool of one sequence at the context asked for
  std::uint64_t bytes_read_at_depth = 0; // by the token at position `depth`: the rows it sees, its own included
};

struct ModelFacts {
  std::vector<WeightClass> weights;  // the classes that the model has
  std::vector<KvClassFacts> kv;      // order of model::layer_classes
  std::int64_t context = 0;
  std::int64_t depth = 0;

  std::uint64_t parameters() const;
  std::uint64_t weight_bytes() const;
  std::uint64_t weight_bytes_per_token() const;
  std::uint64_t kv_bytes() const;
  std::uint64_t kv_bytes_read_at_depth() const;
  std::uint64_t kv_bytes_read_at_zero = 0;
  std::uint64_t state_bytes = 0;     // of one sequence over all recurrent layers; each token reads all of it
  std::int64_t recurrent_layers = 0;
  std::uint64_t bytes_read_at_zero() const { return weight_bytes_per_token() + state_bytes + kv_bytes_read_at_zero; }
  std::uint64_t bytes_read_at_depth() const { return weight_bytes_per_token() + state_bytes + kv_bytes_read_at_depth(); }
};

struct FactsOptions {
  std::int32_t context = 0;     // 1 .. max_positions
  std::int32_t depth = 0;       // 0 .. context - 1
  std::int32_t chunk_rows = 0;  // most prompt rows of a step: window rings are that much longer
  kernels::KvFormat kv = kernels::KvFormat::f32;
};

// Errors: those of kv::plan_kv.
Result<ModelFacts> model_facts(const model::DecoderSpec& spec, const model::DecoderWeights& weights, const FactsOptions& options);

}  // namespace plumb::app
