#include "format/quantize/quantize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/blocks.h"
#include "base/check.h"
#include "base/super_blocks.h"
#include "format/quantize/encoders.h"

namespace plumb::format::quantize {
namespace {

constexpr float kF16Max = 65504.0F;
constexpr float kF32Max = std::numeric_limits<float>::max();

void encode_f32(const float* value, std::uint8_t* out) { std::memcpy(out, value, 4); }
void encode_f16(const float* value, std::uint8_t* out) {
  const std::uint16_t bits = blocks::float_to_f16(*value);
  std::memcpy(out, &bits, 2);
}
void encode_bf16(const float* value, std::uint8_t* out) {
  const std::uint16_t bits = blocks::float_to_bf16(*value);
  std::memcpy(out, &bits, 2);
}

// Error bounds: half a step, and a step is the range over the codes: 1/127 of the largest; 2/15 for 15 steps over a range of twice
// the largest at most; for q4_0 the extreme stands at -8, so a step is 1/8 and the value at the other end may be a step short.
// iq4_nl's widest gap is 24 of 113; mxfp4's is 2 of 6 at the scale that fits all, which may be twice what is needed. The K formats'
// parts round their scales to 6 bits of the block's largest, which is why theirs are a little wider than half a step. nvfp4's widest gap
// is 2 of 6 too, at a scale that is at most an eighth above the one that fits all: UE4M3 has three mantissa bits. Its subnormal scales
// are coarser; they are those of runs whose largest is below 1/28,672 (2^-6 of 448) of the
// matrix's largest.
// clang-format off
constexpr std::array kFormats = {
    Format{DType::q8_0,   blocks::encode_q8_0, 127 * kF16Max, 0.5 / 127 * 1.02, DType::q8_0},
    Format{DType::q6_k,   encode_q6_k,         kF16Max,       0.5 / 31 * 1.1,   DType::q8_0},
    Format{DType::q5_k,   encode_q5_k,         kF16Max,       1.0 / 31 * 1.1,   DType::q8_0},
    Format{DType::q4_k,   encode_q4_k,         kF16Max,       1.0 / 15 * 1.1,   DType::iq4_nl},
    Format{DType::q4_1,   encode_q4_1,         kF16Max,       1.0 / 15 * 1.02,  DType::q4_1},
    Format{DType::q4_0,   encode_q4_0,         kF16Max,       1.0 / 8 * 1.02,   DType::q4_0},
    Format{DType::iq4_nl, encode_iq4_nl,       kF16Max,       12.0 / 113,       DType::iq4_nl},
    Format{DType::mxfp4,  encode_mxfp4,        0x1p127F,      1.0 / 6,          DType::mxfp4},
    // nvfp4's full scale is the largest code at the largest block scale, so that the scales of usual weights are none of the subnormals.
    Format{DType::nvfp4,  encode_nvfp4,        0x1p127F,      1.0 / 6 * 1.125,  DType::iq4_nl, 6 * 448},
    Format{DType::f32,    encode_f32,          kF32Max,       0,                DType::f32},
    Format{DType::f16,    encode_f16,          kF16Max,       0x1p-11,          DType::f16},
    Format{DType::bf16,   encode_bf16,         0x1p127F,      0x1p-8,           DType::bf16},
};
// clang-format on

float half_at(const std::uint8_t* from) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, from, 2);
  return blocks::f16_to_float(bits);
}

// One block to its elements.
void decode_block(DType type, const std::uint8_t* block, float* out) {
  switch (type) {
    case DType::f32: std::memcpy(out, block, 4); return;
    case DType::f16: *out = half_at(block); return;
    case DType::bf16: {
      std::uint16_t bits = 0;
      std::memcpy(&bits, block, 2);
      *out = blocks::bf16_to_float(bits);
      return;
    }
    case DType::q8_0: blocks::decode_q8_0(block, out); return;
    case DType::q4_0: blocks::decode_q4_0(block, out); return;
    case DType::q4_1: blocks::decode_q4_1(block, out); return;
    case DType::iq4_nl: blocks::decode_iq4_nl(block, out); return;
    case DType::mxfp4: blocks::decode_mxfp4(block, out); return;
    case DType::nvfp4:
      for (int p = 0; p < 2; ++p) blocks::decode_nvfp4(block, p, out + 32 * p);
      return;
    default: {
      const auto part = type == DType::q4_k ? blocks::decode_q4_k : type == DType::q5_k ? blocks::decode_q5_k : blocks::decode_q6_k;
      for (int p = 0; p < blocks::kSuperParts; ++p) part(block, p, out + 32 * p);
    }
  }
}

}  // namespace

std::span<const Format> formats() { return kFormats; }

const Format* find_format(DType type) {
  const auto at = std::find_if(kFormats.begin(), kFormats.end(), [&](const Format& f) { return f.type == type; });
  return at == kFormats.end() ? nullptr : &*at;
}

float matrix_factor(const Format& format, float largest) {
  if (format.full_scale == 0 || largest == 0) return 1;
  // Not among float's own subnormals, which have fewer bits and could round to 0.
  return std::max(largest / format.full_scale, std::numeric_limits<float>::min());
}

double bits_per_weight(DType type) {
  const DTypeInfo& info = dtype_info(type);
  return 8.0 * info.block_bytes / info.block_elements;
}

bool can_decode(DType type) { return find_format(type) != nullptr; }

void decode_blocks(DType type, const std::uint8_t* from, std::size_t count, float* out) {
  PLUMB_CHECK(can_decode(type));
  const DTypeInfo& info = dtype_info(type);
  for (std::size_t i = 0; i < count; i += info.block_elements, from += info.block_bytes) decode_block(type, from, out + i);
}

void ErrorSum::add(std::span<const float> source, std::span<const float> result) {
  PLUMB_CHECK(source.size() == result.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    const double x = source[i], off = result[i] - x;
    squares += x * x;
    error_squares += off * off;
    max_abs = std::max(max_abs, std::fabs(off));
  }
  elements += source.size();
}

void ErrorSum::add(const ErrorSum& other) {
  squares += other.squares;
  error_squares += other.error_squares;
  max_abs = std::max(max_abs, other.max_abs);
  elements += other.elements;
}

double ErrorSum::relative_rms() const { return squares > 0 ? std::sqrt(error_squares / squares) : 0; }

}  // namespace plumb::format::quantize
