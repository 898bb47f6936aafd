// Fills that take their bytes from another tensor.
#pragma once

#include <cstdint>
#include <span>

#include "conversion.h"

namespace plumb::app {

// Elements `way`, way + ways, way + 2 * ways, ... of a plain source (f32, f16, bf16), written as `type` (also q8_0, q4_0).
// Elements of blocks are taken in order, so blocks need ways == 1. A number that is not finite where it must be encoded
// sets the refusal. REQUIRES: data as long as the source type says.
struct ElementSource {
  std::span<const std::byte> data;
  DType type = DType::f32;
  std::uint64_t ways = 1;
  std::uint64_t way = 0;
};
FillFn element_fill(const ElementSource& source, DType type, const Refusal& refusal);

// "copied", "widened", "narrowed" or "requantized".
const char* action_of(DType from, DType to);

// ggml MXFP4 blocks from separate codes and scales: row r comes from row r * ways + way of the source. Nothing is rounded.
struct SplitMxfp4 {
  std::span<const std::byte> codes;
  std::span<const std::byte> scales;
  std::uint64_t row_blocks = 0;
  std::uint64_t ways = 1;
  std::uint64_t way = 0;
};
FillFn mxfp4_fill(const SplitMxfp4& source);

}  // namespace plumb::app
