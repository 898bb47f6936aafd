// The weights of a decoder, found in a checkpoint and described, not copied.
//
// Matrices stay where the checkpoint is mapped and are described by a WeightView whose references are filled by lowering.
// Vectors (norms, biases, sinks) are small: they are widened to float32 here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "kernels/api/weight.h"
#include "model/spec.h"

namespace plumb::model {

struct VectorWeight {
  std::string name;
  std::vector<float> values;
  bool empty() const { return values.empty(); }
};

// A matrix or a stack of expert matrices. `view` has format, shape and strides; its references are empty, and `data_offset`
// is where the view begins in `data` (gate and up of one interleaved tensor share their bytes).
struct MatrixWeight {
  std::string name;  // the checkpoint's own, for messages and slots
  kernels::WeightView view;
  std::span<const std::byte> data;
  std::span<const std::byte> scales;  // mxfp4_split only
  std::uint64_t data_offset = 0;
  std::uint64_t scales_offset = 0;
  VectorWeight factors;  // [experts]: what all weights of a matrix are multiplied by; empty: 1
};

struct AttentionWeights {
  MatrixWeight q, k, v, o;
  VectorWeight q_bias, k_bias, v_bias, o_bias;  // empty: none
  VectorWeight sinks;
  VectorWeight q_norm, k_norm;
};

struct RecurrentWeights {
  MatrixWeight q, k, v, beta, decay, o;  // beta and decay: [heads][hidden]
  VectorWeight decay_bias;               // [heads]; empty: none
  VectorWeight decay_rates;              // [heads], as the op takes them: exp of what checkpoints store; empty: 1
};

struct DenseWeights {
  MatrixWeight gate, up, down;
};

struct MoeWeights {
  MatrixWeight router;
  VectorWeight router_bias;
  MatrixWeight gate, up, down;
  VectorWeight gate_bias, up_bias;  // [experts][ffn]
  VectorWeight down_bias;           // [experts][hidden]
};

struct LayerWeights {
  VectorWeight mixer_norm;
  VectorWeight ffn_norm;
  std::variant<AttentionWeights, RecurrentWeights> mixer;
  std::variant<DenseWeights, MoeWeights> ffn;
};

struct DecoderWeights {
  MatrixWeight embedding;
  VectorWeight final_norm;
  MatrixWeight head;  // the embedding itself when the spec ties them
  std::vector<LayerWeights> layers;
};

}  // namespace plumb::model
