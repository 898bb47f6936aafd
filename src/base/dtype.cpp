#include "base/dtype.h"

#include <array>

#include "base/check.h"
#include "base/parse_limits.h"

namespace plumb {
namespace {

// Block sizes of the ggml types follow the published struct layouts (ggml-common.h); the numbers are the on-disk
// contract.
// clang-format off
constexpr std::array kTable = {
    //        type            name      elems bytes ggml  safetensors
    DTypeInfo{DType::f64,     "f64",       1,   8,  28, "F64"},
    DTypeInfo{DType::f32,     "f32",       1,   4,   0, "F32"},
    DTypeInfo{DType::f16,     "f16",       1,   2,   1, "F16"},
    DTypeInfo{DType::bf16,    "bf16",      1,   2,  30, "BF16"},
    DTypeInfo{DType::i64,     "i64",       1,   8,  27, "I64"},
    DTypeInfo{DType::i32,     "i32",       1,   4,  26, "I32"},
    DTypeInfo{DType::i16,     "i16",       1,   2,  25, "I16"},
    DTypeInfo{DType::i8,      "i8",        1,   1,  24, "I8"},
    DTypeInfo{DType::u64,     "u64",       1,   8,  -1, "U64"},
    DTypeInfo{DType::u32,     "u32",       1,   4,  -1, "U32"},
    DTypeInfo{DType::u16,     "u16",       1,   2,  -1, "U16"},
    DTypeInfo{DType::u8,      "u8",        1,   1,  -1, "U8"},
    DTypeInfo{DType::boolean, "bool",      1,   1,  -1, "BOOL"},
    DTypeInfo{DType::c64,     "c64",       1,   8,  -1, "C64"},
    DTypeInfo{DType::f8_e4m3, "f8_e4m3",   1,   1,  -1, "F8_E4M3"},
    DTypeInfo{DType::f8_e5m2, "f8_e5m2",   1,   1,  -1, "F8_E5M2"},
    DTypeInfo{DType::f8_e8m0, "f8_e8m0",   1,   1,  -1, "F8_E8M0"},
    DTypeInfo{DType::f6_e2m3, "f6_e2m3",   4,   3,  -1, "F6_E2M3"},
    DTypeInfo{DType::f6_e3m2, "f6_e3m2",   4,   3,  -1, "F6_E3M2"},
    DTypeInfo{DType::f4_e2m1, "f4_e2m1",   2,   1,  -1, "F4"},
    DTypeInfo{DType::q4_0,    "q4_0",     32,  18,   2, ""},
    DTypeInfo{DType::q4_1,    "q4_1",     32,  20,   3, ""},
    DTypeInfo{DType::q5_0,    "q5_0",     32,  22,   6, ""},
    DTypeInfo{DType::q5_1,    "q5_1",     32,  24,   7, ""},
    DTypeInfo{DType::q8_0,    "q8_0",     32,  34,   8, ""},
    DTypeInfo{DType::q8_1,    "q8_1",     32,  36,   9, ""},
    DTypeInfo{DType::q2_k,    "q2_k",    256,  84,  10, ""},
    DTypeInfo{DType::q3_k,    "q3_k",    256, 110,  11, ""},
    DTypeInfo{DType::q4_k,    "q4_k",    256, 144,  12, ""},
    DTypeInfo{DType::q5_k,    "q5_k",    256, 176,  13, ""},
    DTypeInfo{DType::q6_k,    "q6_k",    256, 210,  14, ""},
    DTypeInfo{DType::q8_k,    "q8_k",    256, 292,  15, ""},
    DTypeInfo{DType::iq1_s,   "iq1_s",   256,  50,  19, ""},
    DTypeInfo{DType::iq1_m,   "iq1_m",   256,  56,  29, ""},
    DTypeInfo{DType::iq2_xxs, "iq2_xxs", 256,  66,  16, ""},
    DTypeInfo{DType::iq2_xs,  "iq2_xs",  256,  74,  17, ""},
    DTypeInfo{DType::iq2_s,   "iq2_s",   256,  82,  22, ""},
    DTypeInfo{DType::iq3_xxs, "iq3_xxs", 256,  98,  18, ""},
    DTypeInfo{DType::iq3_s,   "iq3_s",   256, 110,  21, ""},
    DTypeInfo{DType::iq4_nl,  "iq4_nl",   32,  18,  20, ""},
    DTypeInfo{DType::iq4_xs,  "iq4_xs",  256, 136,  23, ""},
    DTypeInfo{DType::tq1_0,   "tq1_0",   256,  54,  34, ""},
    DTypeInfo{DType::tq2_0,   "tq2_0",   256,  66,  35, ""},
    DTypeInfo{DType::mxfp4,   "mxfp4",    32,  17,  39, ""},
    DTypeInfo{DType::nvfp4,   "nvfp4",    64,  36,  40, ""},
    DTypeInfo{DType::q1_0,    "q1_0",    128,  18,  41, ""},
};
// clang-format on

constexpr bool rows_follow_the_enum() {
  for (std::size_t i = 0; i < kTable.size(); ++i) {
    if (static_cast<std::size_t>(kTable[i].type) != i) return false;
  }
  return kTable.size() == static_cast<std::size_t>(kDTypeCount);
}
static_assert(rows_follow_the_enum());

template <class Match>
std::optional<DType> find(Match match) {
  for (const DTypeInfo& row : kTable) {
    if (match(row)) return row.type;
  }
  return std::nullopt;
}

}  // namespace

std::span<const DTypeInfo> dtype_table() { return kTable; }

const DTypeInfo& dtype_info(DType type) {
  const auto index = static_cast<std::size_t>(type);
  PLUMB_CHECK(index < kTable.size());
  return kTable[index];
}

std::optional<DType> dtype_from_ggml(std::uint32_t id) {
  return find([&](const DTypeInfo& row) { return row.ggml_id >= 0 && static_cast<std::uint32_t>(row.ggml_id) == id; });
}

std::optional<DType> dtype_from_safetensors(std::string_view name) {
  return find([&](const DTypeInfo& row) { return !name.empty() && row.safetensors_name == name; });
}

std::optional<DType> dtype_from_name(std::string_view name) {
  return find([&](const DTypeInfo& row) { return row.name == name; });
}

std::optional<std::uint64_t> element_count(std::span<const std::uint64_t> shape) {
  // A zero makes the product zero wherever it stands, but the other factors must still be sane together: a shape of
  // {2^63, 2^63, 0} is refused rather than read as empty.
  std::uint64_t count = 1;
  bool zero = false;
  for (const std::uint64_t dim : shape) {
    if (dim == 0) {
      zero = true;
      continue;
    }
    const auto product = checked_mul(count, dim);
    if (!product) return std::nullopt;
    count = *product;
  }
  return zero ? 0 : count;
}

std::optional<std::uint64_t> tensor_bytes(DType type, std::span<const std::uint64_t> shape) {
  const DTypeInfo& info = dtype_info(type);
  const auto count = element_count(shape);
  if (!count) return std::nullopt;
  const std::uint64_t inner = shape.empty() ? 1 : shape.back();
  if (inner % info.block_elements != 0) return std::nullopt;
  return checked_mul(*count / info.block_elements, info.block_bytes);
}

}  // namespace plumb
