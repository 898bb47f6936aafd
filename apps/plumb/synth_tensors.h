// The tensors of a synthetic checkpoint, as jobs: gpt-oss in either layout, the hybrid family in its only one.
#pragma once

#include <cstdint>
#include <vector>

#include "geometry.h"
#include "tensor_job.h"

namespace plumb::app {

// In the ggml-org layout: MXFP4 experts, float32 norms, biases, sinks and routers, the rest as `types` says.
std::vector<TensorJob> synth_gguf_tensors(const Geometry& geometry, const MatrixTypes& types, std::uint64_t seed);

// In the Hugging Face layout: MXFP4 blocks and scales apart, everything else bf16 or as `types` says.
// REQUIRES: plain types; not a hybrid geometry.
std::vector<TensorJob> synth_hf_tensors(const Geometry& geometry, const MatrixTypes& types, std::uint64_t seed);

// Of a hybrid geometry (src/model/arch/plumb_hybrid.cpp has the names). Gates are such that a random model remembers: see
// the constants. REQUIRES: plain types.
std::vector<TensorJob> synth_hybrid_tensors(const Geometry& geometry, const MatrixTypes& types, std::uint64_t seed);

}  // namespace plumb::app
