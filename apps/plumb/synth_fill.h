// Random tensor bytes as pure functions of (seed, what the tensor is for, position in it).
//
// Every number comes from a counter-based generator keyed by the seed and the tensor's role, so the bytes depend neither on
// threads nor on writing order, and the same role gives the same weights in either container: interleaving and nibble order
// are the only differences between the expert tensors of a synthetic GGUF and those of its Hugging Face twin.
#pragma once

#include <cstdint>
#include <string_view>

#include "tensor_job.h"

namespace plumb::app {

// The generator's key for one tensor.
std::uint64_t role_key(std::uint64_t seed, std::string_view role);

// Elements uniform in center +- spread, rounded to bfloat16 whatever the type, so that the f32 vectors of a GGUF equal the
// bf16 ones of its twin. Types: f32, bf16, f16. Granule: one element.
FillFn uniform_fill(std::uint64_t key, DType type, float center, float spread);

// Blocks of 32 whose elements have the root mean square `rms`, scales varying from block to block.
// Types: q8_0, q4_0, mxfp4. Granule: one block.
FillFn block_fill(std::uint64_t key, DType type, float rms);

// A matrix of independent elements with the given root mean square, in any of the types above.
FillFn matrix_fill(std::uint64_t key, DType type, float rms);

// The MXFP4 tensor of a key in the Hugging Face layout. With two keys, rows alternate: row 2r is row r of the first (gate),
// row 2r + 1 is row r of the second (up). `row_blocks`: blocks of one row, hidden / 32. Granules: 16 * row_blocks, row_blocks.
struct HfExperts {
  std::uint64_t first = 0;
  std::uint64_t second = 0;  // 0: not interleaved
  std::uint64_t row_blocks = 0;
  float rms = 0;
};
FillFn hf_codes_fill(const HfExperts& experts);
FillFn hf_scales_fill(const HfExperts& experts);

// Biases of interleaved rows: element 2i from the first key, 2i + 1 from the second. Granule: two elements.
FillFn interleaved_fill(std::uint64_t first, std::uint64_t second, DType type, float center, float spread);

}  // namespace plumb::app
