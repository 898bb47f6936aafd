// The page that holds a position, and what a cell of each form holds, as kv_view.h defines them.
#pragma once

#include <cmath>
#include <cstring>

#include "base/blocks.h"
#include "kernels/api/kv_view.h"
#include "kernels/api/q8_rows.h"
#include "kernels/api/quantize.h"

namespace plumb::kernels {

// The physical page of (sequence, position), or -1 when there is none: a sequence, position or table entry out of bounds.
inline std::int64_t page_of(const KvView& kv, std::int64_t sequence, std::int64_t position) {
  if (sequence < 0 || sequence >= kv.sequences || position < 0) return -1;
  const std::int64_t logical = position / kv.page_rows;
  if (kv.window == 0 && logical >= kv.table_pages) return -1;  // a full-attention table does not wrap
  const std::int64_t page = kv.table[sequence * kv.table_pages + logical % kv.table_pages];
  return page >= 0 && page < kv.pages ? page : -1;
}

// Element d of a row of a head; `pool` is kv.k or kv.v.
inline double kv_load(const KvView& kv, const std::byte* pool, std::int64_t page, int head, std::int64_t row, std::int64_t d) {
  const std::byte* block = pool + kv_block(kv, page, head);
  const std::byte* at = block + kv_row_in_block(kv, row) + d * kv_element_bytes(kv.format);
  const auto half = [at] {
    std::uint16_t bits;
    std::memcpy(&bits, at, sizeof bits);
    return bits;
  };
  float value = 0;
  switch (kv.format) {
    case KvFormat::f32: std::memcpy(&value, at, sizeof value); return double{value};
    case KvFormat::f16: return double{blocks::f16_to_float(half())};
    case KvFormat::bf16: return double{blocks::bf16_to_float(half())};
    case KvFormat::q8: break;
  }
  std::memcpy(&value, block + kv_scales_in_block(kv) + row * 4, sizeof value);
  return double{value} * static_cast<std::int8_t>(*at);
}

// Writes a row of a head: `values` are head_dim floats.
inline void kv_store(const KvView& kv, std::byte* pool, std::int64_t page, int head, std::int64_t row, const float* values) {
  std::byte* block = pool + kv_block(kv, page, head);
  std::byte* to = block + kv_row_in_block(kv, row);
  if (kv.format == KvFormat::f32) {
    std::memcpy(to, values, static_cast<std::size_t>(kv.head_dim) * 4);
  } else if (kv.format != KvFormat::q8) {
    for (std::int32_t d = 0; d < kv.head_dim; ++d) {
      const std::uint16_t bits = kv.format == KvFormat::f16 ? blocks::float_to_f16(values[d]) : blocks::float_to_bf16(values[d]);
      std::memcpy(to + d * 2, &bits, 2);
    }
  } else {
    float largest = 0;
    bool finite = true;
    for (std::int32_t d = 0; d < kv.head_dim; ++d) {
      finite = finite && std::isfinite(values[d]);
      largest = std::fmax(largest, std::fabs(values[d]));
    }
    const bool codes = finite && largest >= kQ8Smallest;
    const float scale = codes ? largest / static_cast<float>(kQ8MaxCode) : finite ? 0.0F : std::nanf("");
    const float inverse = static_cast<float>(kQ8MaxCode) / largest;
    for (std::int32_t d = 0; d < kv.head_dim; ++d) {
      to[d] = codes ? static_cast<std::byte>(static_cast<std::int8_t>(std::nearbyint(values[d] * inverse))) : std::byte{0};
    }
    std::memcpy(block + kv_scales_in_block(kv) + row * 4, &scale, sizeof scale);
  }
}

}  // namespace plumb::kernels
