#include "convert_fill.h"

#include <array>
#include <cmath>
#include <cstring>

#include "base/blocks.h"
#include "base/check.h"

namespace plumb::app {
namespace {

const std::uint8_t* bytes_of(std::span<const std::byte> in) { return reinterpret_cast<const std::uint8_t*>(in.data()); }
std::uint8_t* bytes_of(std::span<std::byte> out) { return reinterpret_cast<std::uint8_t*>(out.data()); }

float load(DType type, const std::uint8_t* at) {
  if (type == DType::f32) {
    float value = 0;
    std::memcpy(&value, at, 4);
    return value;
  }
  std::uint16_t half = 0;
  std::memcpy(&half, at, 2);
  return type == DType::bf16 ? blocks::bf16_to_float(half) : blocks::f16_to_float(half);
}

// Largest magnitude that the type's encoder takes; a plain f32 or bf16 takes anything.
float limit_of(DType type) {
  switch (type) {
    case DType::f16: return 65504.0F;
    case DType::q8_0: return 127 * 65504.0F;
    case DType::q4_0: return 8 * 65504.0F;
    default: return INFINITY;
  }
}

void encode(DType type, const float* values, std::uint8_t* out) {
  switch (type) {
    case DType::f32: std::memcpy(out, values, 4); break;
    case DType::bf16: {
      const std::uint16_t half = blocks::float_to_bf16(*values);
      std::memcpy(out, &half, 2);
      break;
    }
    case DType::f16: {
      const std::uint16_t half = blocks::float_to_f16(*values);
      std::memcpy(out, &half, 2);
      break;
    }
    case DType::q8_0: blocks::encode_q8_0(values, out); break;
    case DType::q4_0: blocks::encode_q4_0(values, out); break;
    default: PLUMB_CHECK(!"a type that convert writes");
  }
}

}  // namespace

FillFn element_fill(const ElementSource& source, DType type, const Refusal& refusal) {
  if (source.type == type && source.ways == 1) {
    return [source](std::uint64_t offset, std::span<std::byte> out) { std::memcpy(out.data(), source.data.data() + offset, out.size()); };
  }
  return [source, type, refusal, limit = limit_of(type)](std::uint64_t offset, std::span<std::byte> out) {
    const DTypeInfo& to = dtype_info(type);
    const std::uint64_t from_bytes = dtype_info(source.type).block_bytes;
    std::uint64_t element = offset / to.block_bytes * to.block_elements;
    std::array<float, blocks::kBlock> values{};
    for (std::uint64_t at = 0; at < out.size(); at += to.block_bytes) {
      for (std::uint32_t i = 0; i < to.block_elements; ++i, ++element) {
        values[i] = load(source.type, bytes_of(source.data) + (element * source.ways + source.way) * from_bytes);
        if (!(std::abs(values[i]) <= limit)) {
          refusal->store(true, std::memory_order_relaxed);
          values[i] = 0;
        }
      }
      encode(type, values.data(), bytes_of(out) + at);
    }
  };
}

const char* action_of(DType from, DType to) {
  if (from == to) return "copied";
  if (dtype_info(to).block_elements != 1) return "requantized";
  return to == DType::f32 ? "widened" : "narrowed";
}

FillFn mxfp4_fill(const SplitMxfp4& source) {
  return [source](std::uint64_t offset, std::span<std::byte> out) {
    const std::uint64_t row_bytes = source.row_blocks * blocks::kMxfp4Bytes;
    std::uint8_t* at = bytes_of(out);
    for (std::uint64_t row = offset / row_bytes; row < (offset + out.size()) / row_bytes; ++row) {
      const std::uint64_t first = (row * source.ways + source.way) * source.row_blocks;
      for (std::uint64_t block = first; block < first + source.row_blocks; ++block, at += blocks::kMxfp4Bytes) {
        at[0] = bytes_of(source.scales)[block];
        blocks::renibble_hf_to_ggml(bytes_of(source.codes) + block * blocks::kMxfp4CodeBytes, at + 1);
      }
    }
  };
}

}  // namespace plumb::app
