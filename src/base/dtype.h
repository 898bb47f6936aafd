// Element types of stored tensors, as one table. Adding a type is one enumerator and one row in dtype.cpp.
//
// A type stores its elements in blocks along the innermost dimension: block_elements elements in block_bytes bytes
// (1 element for the plain types). That a type stands here means that files holding it can be read and named; whether a
// kernel computes with it is the kernel table's business.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace plumb {

enum class DType : std::uint8_t {
  // plain
  f64,
  f32,
  f16,
  bf16,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean,
  c64,
  // small floats as safetensors names them
  f8_e4m3,
  f8_e5m2,
  f8_e8m0,
  f6_e2m3,
  f6_e3m2,
  f4_e2m1,
  // ggml block types
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q8_1,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  q8_k,
  iq1_s,
  iq1_m,
  iq2_xxs,
  iq2_xs,
  iq2_s,
  iq3_xxs,
  iq3_s,
  iq4_nl,
  iq4_xs,
  tq1_0,
  tq2_0,
  mxfp4,  // 17 bytes: E8M0 scale, then 16 bytes of nibbles; see base/blocks.h
  nvfp4,  // 36 bytes: 4 UE4M3 scales, then 32 bytes of nibbles
  q1_0,
};
inline constexpr int kDTypeCount = static_cast<int>(DType::q1_0) + 1;

struct DTypeInfo {
  DType type;
  std::string_view name;  // Plumb's own name, lower case: "q8_0"; stable, used in --json output
  std::uint32_t block_elements;
  std::uint32_t block_bytes;
  int ggml_id;                        // the type number in a GGUF tensor table, -1 when the container has none
  std::string_view safetensors_name;  // the "dtype" string, empty when the container has none
};

// The whole table, indexed by the enumerator's value.
std::span<const DTypeInfo> dtype_table();

const DTypeInfo& dtype_info(DType type);
inline std::string_view to_string(DType type) { return dtype_info(type).name; }

// Look-ups by the containers' own spelling; nullopt for one that the table does not have.
std::optional<DType> dtype_from_ggml(std::uint32_t id);
std::optional<DType> dtype_from_safetensors(std::string_view name);
std::optional<DType> dtype_from_name(std::string_view name);

// Elements of a shape, or nullopt when the product does not fit in 64 bits. A scalar (empty shape) has one element.
std::optional<std::uint64_t> element_count(std::span<const std::uint64_t> shape);

// Bytes that a densely stored tensor takes. Nullopt when a product wraps or when the innermost dimension is not a whole
// number of blocks. Any dimension may be zero (0 bytes).
std::optional<std::uint64_t> tensor_bytes(DType type, std::span<const std::uint64_t> shape);

}  // namespace plumb
