// Rows of activations as signed bytes: what `quantize` writes and the products of the q8 path read.
//
// A row of `cols` elements (a multiple of 32) is three runs, one after the other:
//   int8 codes[cols]            x[k] is codes[k] * scales[k / 32], each code within +-127
//   f32  scales[cols / 32]
//   i16  sums[cols / 32][2]     of each block: minus the sum of the codes with k % 4 in {0, 1}, and of those in {2, 3}
//
// The sums serve kernels that make signed weights unsigned by adding an offset: starting a sum of (w + offset) * code at
// offset * sums takes the offset out again. They come in two because vpmaddubsw and vpmaddwd leave two 16-bit lanes for every
// four elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace plumb::kernels {

inline constexpr int kQ8Block = 32;
inline constexpr int kQ8MaxCode = 127;

inline constexpr std::uint64_t q8_row_bytes(std::int64_t cols) {
  return static_cast<std::uint64_t>(cols + cols / kQ8Block * 8);
}

// The three runs of a row. The row lies on a multiple of 4 bytes.
struct Q8Row {
  const std::int8_t* codes;
  const float* scales;
  const std::int16_t* sums;

  Q8Row() = default;
  Q8Row(const std::byte* row, std::int64_t cols)
      : codes(reinterpret_cast<const std::int8_t*>(row)), scales(reinterpret_cast<const float*>(row + cols)),
        sums(reinterpret_cast<const std::int16_t*>(row + cols + cols / kQ8Block * 4)) {}
};

}  // namespace plumb::kernels
