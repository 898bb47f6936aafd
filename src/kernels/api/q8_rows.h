// Rows of activations as signed bytes: what `quantize` writes and the products of the q8 path read.
//
// A row of `cols` elements (a multiple of 32) is cols / 32 blocks, one after the other. Scale and sums lie beside the codes they
// belong to, so that a kernel walks a row with one address.
#pragma once

#include <cstddef>
#include <cstdint>

namespace plumb::kernels {

inline constexpr int kQ8Block = 32;
inline constexpr int kQ8MaxCode = 127;

struct Q8Block {
  std::int8_t codes[kQ8Block];  // element k is codes[k] * scale, each code within +-127
  float scale;
  // Minus the sum of the codes with k % 4 in {0, 1}, and of those in {2, 3}. They serve kernels that make signed weights unsigned by
  // adding an offset: starting a sum of (w + offset) * code at offset * sums takes the offset out again. They are two because
  // vpmaddubsw leaves two 16-bit lanes for every four elements.
  std::int16_t sums[2];
};
static_assert(sizeof(Q8Block) == 40 && alignof(Q8Block) == 4);

inline constexpr std::uint64_t q8_row_bytes(std::int64_t cols) {
  return static_cast<std::uint64_t>(cols / kQ8Block) * sizeof(Q8Block);
}
// Row `row` of q8 rows of `cols`.
inline const Q8Block* q8_row(const std::byte* rows, std::int64_t row, std::int64_t cols) {
  return reinterpret_cast<const Q8Block*>(rows) + row * (cols / kQ8Block);
}

}  // namespace plumb::kernels
