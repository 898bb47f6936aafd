// The example of docs/RECIPES.md for an architecture: a family that calls its sizes by other names. In the engine it is
// src/model/arch/<family>.cpp with one line in table.cpp.
#pragma once

#include <cmath>

#include "model/arch/common.h"
#include "model/arch/table.h"
#include "model/tensor_reader.h"

namespace recipes {

using namespace plumb;  // NOLINT: a recipe reads like the code it stands for

// Nothing is assumed that the file says: every size is read, bounded, and named when it is wrong.
inline Result<model::DecoderSpec> read_tiny_spec(const format::Checkpoint&, const format::Config& c) {
  model::DecoderSpec spec{.family = "tiny"};
  PLUMB_ASSIGN(spec.vocab, model::size(c, "n_vocab"));
  PLUMB_ASSIGN(spec.hidden, model::size(c, "width", 8));
  PLUMB_ASSIGN(spec.max_positions, model::size_or(c, "n_positions", 2048));
  PLUMB_ASSIGN(const std::int32_t layers, model::size(c, "depth", 1, 4096));
  PLUMB_ASSIGN(const std::int32_t window, model::size_or(c, "window", 0, 0));
  model::AttentionSpec attention{.window = window, .q_heads = 1, .kv_heads = 1};
  PLUMB_ASSIGN(attention.head_dim, model::size(c, "head_width", 8, 512));
  attention.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(attention.head_dim)));
  attention.rope.rotary_dims = attention.head_dim;
  model::DenseSpec dense{.glu = {kernels::GluKind::silu}};
  PLUMB_ASSIGN(dense.ffn, model::size(c, "ffn_width"));
  spec.layers.assign(static_cast<std::size_t>(layers), {attention, dense});
  return spec;
}

// Takes each tensor by name and shape; finish() makes a tensor nobody asked for an error.
inline Result<model::DecoderWeights> read_tiny_weights(const format::Checkpoint& checkpoint, const model::DecoderSpec& spec) {
  model::TensorReader read(checkpoint);
  model::DecoderWeights w;
  PLUMB_ASSIGN(w.embedding, read.matrix("embed", spec.vocab, spec.hidden));
  PLUMB_ASSIGN(w.final_norm, read.vector("norm", spec.hidden));
  w.head = w.embedding;
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    const std::string layer = "layer." + std::to_string(i) + ".";
    const auto& a = std::get<model::AttentionSpec>(spec.layers[i].mixer);
    const std::int32_t ffn = std::get<model::DenseSpec>(spec.layers[i].ffn).ffn;
    model::LayerWeights l;
    PLUMB_ASSIGN(l.mixer_norm, read.vector(layer + "norm1", spec.hidden));
    PLUMB_ASSIGN(l.ffn_norm, read.vector(layer + "norm2", spec.hidden));
    model::AttentionWeights m;
    PLUMB_ASSIGN(m.q, read.matrix(layer + "q", a.head_dim, spec.hidden));
    PLUMB_ASSIGN(m.k, read.matrix(layer + "k", a.head_dim, spec.hidden));
    PLUMB_ASSIGN(m.v, read.matrix(layer + "v", a.head_dim, spec.hidden));
    PLUMB_ASSIGN(m.o, read.matrix(layer + "o", spec.hidden, a.head_dim));
    l.mixer = std::move(m);
    model::DenseWeights d;
    PLUMB_ASSIGN(d.gate, read.matrix(layer + "gate", ffn, spec.hidden));
    PLUMB_ASSIGN(d.up, read.matrix(layer + "up", ffn, spec.hidden));
    PLUMB_ASSIGN(d.down, read.matrix(layer + "down", spec.hidden, ffn));
    l.ffn = std::move(d);
    w.layers.push_back(std::move(l));
  }
  PLUMB_TRY(read.finish());
  return w;
}

// The line of the architecture table.
inline const model::Architecture kTiny{"tiny", "tiny", "tiny", &read_tiny_spec, &read_tiny_weights};

}  // namespace recipes
