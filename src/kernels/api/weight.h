// How a weight matrix lies in memory, for every op that multiplies by one.
#pragma once

#include <array>
#include <cstdint>

#include "base/blocks.h"
#include "base/super_blocks.h"
#include "kernels/api/ref.h"

namespace plumb::kernels {

// Row formats. Elements of a row are in natural order k = 0..cols-1 whatever the container, so the same weights give the
// same bits from each of them. Block layouts are those of base/blocks.h and base/super_blocks.h.
enum class WeightFormat : std::uint8_t {
  f32,
  f16,
  bf16,
  q8_0,         // 34 bytes per 32: f16 scale, 32 signed bytes
  q4_0,         // 18 bytes per 32: f16 scale, 16 bytes of two nibbles (j and j + 16), minus 8
  mxfp4,        // 17 bytes per 32: E8M0 scale, 16 bytes of two E2M1 codes (j and j + 16). GGUF
  mxfp4_split,  // 16 code bytes per 32 in `data` (2j and 2j + 1), E8M0 scales in `scales`. Hugging Face
  q4_1,         // 20 bytes per 32: f16 scale, f16 offset, nibbles as in q4_0
  iq4_nl,       // 18 bytes per 32: f16 scale, nibbles as in q4_0 that choose from 16 values
  nvfp4,        // 36 bytes per 64: 4 UE4M3 scales, 32 bytes of two E2M1 codes
  q4_k,         // 144 bytes per 256: f16 scale and min, 8 pairs of 6 bits, nibbles (base/super_blocks.h)
  q5_k,         // 176 bytes per 256: the same with a fifth bit
  q6_k,         // 210 bytes per 256: 6-bit codes, 16 signed scales, f16 scale
  // Packed: what the `pack` op makes of the stored ones for products with q8 activations. Eight rows are interleaved so that
  // the eight 32-bit lanes of a vector belong to eight outputs: a sum then never crosses lanes. Eight rows of one block are
  // block_bytes / 4 vectors of 32 bytes in `data`; bytes 4j..4j + 3 of vector v are bytes 4v..4v + 3 of row j's codes. The same
  // field of their scales is neighbours in `scales`: eight of the first, then eight of the second, and so on. The rows of the last
  // group that do not exist are zero.
  q8_0_r8,      // codes: 32 signed bytes; scales: f16
  q4_0_r8,      // codes: 16 bytes of two nibbles (j and j + 16), minus 8; scales: f16
  mxfp4_r8,     // codes: 16 bytes of two E2M1 codes (j and j + 16); scales: a byte s for 2^(s - 126), 0 for 0. So an E8M0
                // scale below 2^-125 is lost: at most 6 * 2^-126 of a weight
  iq4_nl_r8,    // codes: as q4_0_r8; scales: f16
  q4_1_r8,      // codes: as q4_0_r8; scales: f16 scale, f16 offset
  nvfp4_r8,     // blocks of 64: for each part of 32, 16 bytes of two E2M1 codes (j and j + 16); scales: for each 16 elements an f16,
                // half of the UE4M3 scale
  // Blocks of 256. For each part of 32: 16 bytes of two nibbles (j and j + 16), then the upper bits of the codes, if any.
  q4_k_r8,      // scales: f16 d, f16 dmin, then for each part a byte of scale and a byte of min
  q5_k_r8,      // upper: 4 bytes; bit v of byte b is bit 4 of code 4 v + b. Scales as q4_k_r8
  q6_k_r8,      // upper: 8 bytes; bits 2 t, 2 t + 1 of byte 4 u + b are bits 4, 5 of code 16 u + 4 t + b. Scales: f16 d, 16 signed bytes
};
inline constexpr int kWeightFormatCount = static_cast<int>(WeightFormat::q6_k_r8) + 1;

struct WeightFormatTraits {
  const char* name;  // the <weight> part of a kernel's name
  int block;         // elements of a block; cols must be a multiple
  int block_bytes;   // bytes of a block in `data`
  int scale_bytes;   // bytes of a block in `scales`; 0 when the scale is inside the block
  int group;         // rows interleaved with each other; 1: stored row by row
  int scale_halves;  // packed: fields of two bytes in front of those of one byte in `scale_bytes`
};
inline constexpr std::array<WeightFormatTraits, kWeightFormatCount> kWeightTraits = {{
    {"f32", 1, 4, 0, 1, 0},
    {"f16", 1, 2, 0, 1, 0},
    {"bf16", 1, 2, 0, 1, 0},
    {"q8_0", blocks::kBlock, blocks::kQ8Bytes, 0, 1, 0},
    {"q4_0", blocks::kBlock, blocks::kQ4Bytes, 0, 1, 0},
    {"mxfp4", blocks::kBlock, blocks::kMxfp4Bytes, 0, 1, 0},
    {"mxfp4_split", blocks::kBlock, blocks::kMxfp4CodeBytes, 1, 1, 0},
    {"q4_1", blocks::kBlock, blocks::kQ41Bytes, 0, 1, 0},
    {"iq4_nl", blocks::kBlock, blocks::kIq4NlBytes, 0, 1, 0},
    {"nvfp4", blocks::kNvfp4Block, blocks::kNvfp4Bytes, 0, 1, 0},
    {"q4_k", blocks::kSuper, blocks::kQ4kBytes, 0, 1, 0},
    {"q5_k", blocks::kSuper, blocks::kQ5kBytes, 0, 1, 0},
    {"q6_k", blocks::kSuper, blocks::kQ6kBytes, 0, 1, 0},
    {"q8_0_r8", blocks::kBlock, blocks::kQ8Bytes - 2, 2, 8, 1},
    {"q4_0_r8", blocks::kBlock, blocks::kQ4Bytes - 2, 2, 8, 1},
    {"mxfp4_r8", blocks::kBlock, blocks::kMxfp4CodeBytes, 1, 8, 0},
    {"iq4_nl_r8", blocks::kBlock, blocks::kIq4NlBytes - 2, 2, 8, 1},
    {"q4_1_r8", blocks::kBlock, blocks::kQ41Bytes - 4, 4, 8, 2},
    {"nvfp4_r8", blocks::kNvfp4Block, blocks::kNvfp4Block / 2, 8, 8, 4},
    {"q4_k_r8", blocks::kSuper, 8 * 16, 20, 8, 2},
    {"q5_k_r8", blocks::kSuper, 8 * 20, 20, 8, 2},
    {"q6_k_r8", blocks::kSuper, 8 * 24, 18, 8, 1},
}};
const WeightFormatTraits& traits(WeightFormat format);
inline bool is_packed(WeightFormat format) { return traits(format).group > 1; }

// A matrix [rows][cols], or a stack of them [experts][rows][cols]. Strides in bytes, so that interleaved rows (gate and up in
// one Hugging Face tensor) and sub-ranges are views and never copies.
struct WeightView {
  Ref<const std::byte> data;
  Ref<const std::byte> scales;  // where the format keeps its scales apart
  Ref<const float> factors;     // [experts], optional: what all weights of a matrix are multiplied by
  WeightFormat format = WeightFormat::f32;
  std::int32_t rows = 0;
  std::int32_t cols = 0;
  std::int32_t experts = 1;
  std::int64_t row_stride = 0;
  std::int64_t expert_stride = 0;
  std::int64_t scale_row_stride = 0;
  std::int64_t scale_expert_stride = 0;
};

// Where the codes of (row, block) begin in a packed matrix: bytes 4v..4v + 3 lie 32 v further on. And its scale. Groups of a
// packed format are `group` rows of row_stride apart, which is a row's bytes times the matrices that take turns (pack.h).
inline std::int64_t packed_offset(const WeightView& w, std::int64_t row, std::int64_t block) {
  const WeightFormatTraits& t = traits(w.format);
  return row / t.group * t.group * w.row_stride + block * t.group * t.block_bytes + row % t.group * 4;
}
// The field that begins `field` bytes into a row's scales.
inline std::int64_t packed_scale_offset(const WeightView& w, std::int64_t row, std::int64_t block, int field = 0) {
  const WeightFormatTraits& t = traits(w.format);
  const int width = field < 2 * t.scale_halves ? 2 : 1;
  return row / t.group * t.group * w.scale_row_stride + (block * t.scale_bytes + field) * t.group + row % t.group * width;
}

// Bytes of one row's blocks (data and scales), without padding between rows.
std::uint64_t weight_row_bytes(const WeightView& w);
// Extents from the references on: to the end of the last group of rows of the last matrix.
std::uint64_t weight_data_extent(const WeightView& w);
std::uint64_t weight_scales_extent(const WeightView& w);

template <class View, class Visitor>
void visit_weight(View& w, const char* data_name, const char* scales_name, const char* factors_name, Visitor&& visit) {
  visit(OperandInfo{data_name, Access::read, weight_data_extent(w)}, w.data);
  if (traits(w.format).scale_bytes > 0) visit(OperandInfo{scales_name, Access::read, weight_scales_extent(w)}, w.scales);
  if (w.factors) visit(OperandInfo{factors_name, Access::read, static_cast<std::uint64_t>(w.experts) * 4}, w.factors);
}

}  // namespace plumb::kernels
