// Quantising and its undoing, by element type: what `plumb convert` turns tensors into, and what it can read them from.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/dtype.h"

namespace plumb::format::quantize {

// A format that tensors are written in, plain ones included. One row of the table.
struct Format {
  DType type;
  void (*encode)(const float* values, std::uint8_t* block);  // dtype_info(type).block_elements values
  float limit;         // largest magnitude of a weight
  double error_bound;  // RMS error of one block is at most this part of the block's largest magnitude
  DType short_rows;    // what is written instead where rows are no whole number of blocks
  // Where not 0: the encoder takes, and its blocks hold, weights divided by matrix_factor, and this is the largest magnitude they
  // reach. The factor is stored beside the matrix (`NAME.scale` in GGUF). Then error_bound is that of blocks which are not tiny
  // beside their matrix.
  float full_scale = 0;
};

// All of them.
std::span<const Format> formats();

// Null for a type that nothing is written in.
const Format* find_format(DType type);

// What the weights of a matrix are divided by before they are encoded: 1, or, where the format has a full scale, what brings
// `largest`, the matrix's largest magnitude, there. REQUIRES: 0 <= largest <= format.limit.
float matrix_factor(const Format& format, float largest);

// Bits of one element, block scales included.
double bits_per_weight(DType type);

// Types that `decode_blocks` reads: f32, f16, bf16 and the block formats that are weights.
bool can_decode(DType type);
// `count` elements from the block at `from` on. REQUIRES: can_decode(type); count is a multiple of the type's block.
void decode_blocks(DType type, const std::uint8_t* from, std::size_t count, float* out);

// How far quantised values are from what they came from. Sums are in double and added in a fixed order.
struct ErrorSum {
  double squares = 0;        // of the source
  double error_squares = 0;
  double max_abs = 0;        // largest |difference|
  std::uint64_t elements = 0;

  void add(std::span<const float> source, std::span<const float> result);
  void add(const ErrorSum& other);
  double relative_rms() const;  // 0 where the source is all zeros
};

}  // namespace plumb::format::quantize
