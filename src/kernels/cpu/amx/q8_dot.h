// The products of packed weights with many rows by AMX tiles; with few rows as avx512 has them. Same names as generic/q8_dot.h.
//
// A tile holds sixteen rows of activations, one block of 32 codes each; another the block of sixteen weight rows, whose packed layout
// (four elements of a row after those of the row before) is the one that tdpbssd wants. The product is the block's integer sums,
// which are scaled and added in f32 as everywhere: scales belong to blocks, so a tile is never more than one block deep.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// Rows of a tile.
inline constexpr int kQ8TileRows = 16;
// With up to this many the vectors of avx512 are used.
inline constexpr int kVectorRows = 8;

// The operand of ldtilecfg: tile 0 the sums, 16 x 16 words; tile 1 the codes, 16 x 32 bytes; tile 2 the weights, 8 x 64 bytes.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 32, 64};
  std::uint8_t rows[16] = {16, 16, 8};
};
static_assert(sizeof(TileConfig) == 64);

// The rows of activations of a tile: where block b of each lies. Rows that follow each other at one distance are loaded from where
// they are, others (the rows of an expert) are gathered.
struct TileRows {
  const Q8Block* x[kQ8TileRows];
  std::int64_t stride;  // bytes from row to row; 0: gathered

  // Rows behind the last repeat it; their sums are not stored.
  TileRows(const Q8Block* const* from, int rows) {
    for (int r = 0; r < kQ8TileRows; ++r) x[r] = from[r < rows ? r : rows - 1];
    const auto distance = [&](int r) { return reinterpret_cast<const char*>(x[r]) - reinterpret_cast<const char*>(x[r - 1]); };
    stride = distance(1);
    for (int r = 2; r < kQ8TileRows; ++r) stride = distance(r) == stride ? stride : 0;
  }
};

// As q8_dot_pair (wide_dot.h), for the rows of a tile. REQUIRES: the tiles are configured.
template <WeightFormat F>
inline void q8_dot_tile(const PackedRows& matrix, std::int64_t group, bool both, const TileRows& rows, int count, float* sums,
                        std::int64_t stride) {
  const WidePair pair(matrix, group, both);
  const __m512i offset = _mm512_set1_epi8(static_cast<char>(WideBlock<F>::kOffset));
  alignas(64) std::byte weights[8][64];
  alignas(64) std::int8_t codes[kQ8TileRows][32];
  alignas(64) std::int32_t products[kQ8TileRows][16];
  __m512 acc[kQ8TileRows];
  for (int r = 0; r < kQ8TileRows; ++r) acc[r] = _mm512_setzero_ps();
  for (std::int64_t b = 0; b < pair.blocks; ++b) {
    __m512i w[8];
    WideBlock<F>::weights(pair.data[0] + b * PackedShape<F>::kBytes, pair.data[1] + b * PackedShape<F>::kBytes, w);
#pragma GCC unroll 8
    for (int v = 0; v < 8; ++v) _mm512_store_si512(weights[v], _mm512_sub_epi8(w[v], offset));  // signed
    if (rows.stride != 0) {
      _tile_loadd(1, rows.x[0][b].codes, rows.stride);
    } else {
      for (int r = 0; r < kQ8TileRows; ++r) std::memcpy(codes[r], rows.x[r][b].codes, 32);
      _tile_loadd(1, codes, 32);
    }
    _tile_zero(0);
    _tile_loadd(2, weights, 64);
    _tile_dpbssd(0, 1, 2);
    _tile_stored(0, products, 64);
    const __m512 factors = WideBlock<F>::factors(pair.scales[0] + b * PackedShape<F>::kScaleBytes, pair.scales[1] + b * PackedShape<F>::kScaleBytes);
#pragma GCC unroll 16
    for (int r = 0; r < kQ8TileRows; ++r) {
      acc[r] = add_scaled_wide(_mm512_load_si512(products[r]), rows.x[r][b].scale, factors, acc[r]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kQ8TileRows; ++r) {
    if (r < count) store_wide(sums + r * stride, acc[r], both);
  }
}

// As generic/q8_dot.h. REQUIRES: 1 <= rows <= kQ8TileRows.
template <WeightFormat F>
void q8_dot(const PackedRows& w, std::int64_t first, int groups, const Q8Block* const* x, int rows, float* sums, std::int64_t stride) {
  if (rows <= kVectorRows) return q8_wide_dot<F>(w, first, groups, x, rows, sums, stride);
  const TileConfig config;
  _tile_loadconfig(&config);
  const TileRows tile(x, rows);
  for (int g = 0; g < groups; g += 2) q8_dot_tile<F>(w, first + g, g + 1 < groups, tile, rows, sums + 8 * g, stride);
  _tile_release();
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
