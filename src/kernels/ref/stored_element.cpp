#include "kernels/ref/stored_element.h"

#include <cstring>

#include "base/blocks.h"
#include "base/check.h"

namespace plumb::kernels {
namespace {

int byte(const std::byte* at, int i) { return static_cast<std::uint8_t>(at[i]); }
double half(const std::byte* at) { return blocks::f16_to_float(static_cast<std::uint16_t>(byte(at, 0) | byte(at, 1) << 8)); }
int nibble(const std::byte* at, int i, bool high) { return high ? byte(at, i) >> 4 : byte(at, i) & 15; }

// Scale and min of part p, from the 12 bytes at `at`: six bits each, the upper two of parts 4..7 above the fields of parts 0..3.
int part_scale(const std::byte* at, int p) { return p < 4 ? byte(at, p) % 64 : nibble(at, p + 4, false) + 16 * (byte(at, p - 4) / 64); }
int part_min(const std::byte* at, int p) { return p < 4 ? byte(at, p + 4) % 64 : nibble(at, p + 4, true) + 16 * (byte(at, p) / 64); }

}  // namespace

int stored_code(WeightFormat format, const std::byte* block, int k) {
  const int p = k / 32;
  const int l = k % 32;
  switch (format) {
    case WeightFormat::q4_1: return nibble(block + 4, k % 16, k >= 16);
    case WeightFormat::iq4_nl: return nibble(block + 2, k % 16, k >= 16);
    case WeightFormat::nvfp4: return nibble(block + 4, 8 * (k / 16) + k % 8, k % 16 >= 8);
    case WeightFormat::q4_k: return nibble(block + 16, 32 * (p / 2) + l, p % 2 == 1);
    case WeightFormat::q5_k: return nibble(block + 48, 32 * (p / 2) + l, p % 2 == 1) + 16 * ((byte(block, 16 + l) >> p) % 2);
    case WeightFormat::q6_k: {
      const int h = p / 4;
      const int i = p % 4;
      return nibble(block, 64 * h + 32 * (i % 2) + l, i >= 2) + 16 * ((byte(block, 128 + 32 * h + l) >> (2 * i)) % 4);
    }
    default: PLUMB_CHECK(!"a format with codes"); return 0;
  }
}

void stored_scales(WeightFormat format, const std::byte* block, std::byte* fields) {
  switch (format) {
    case WeightFormat::iq4_nl: std::memcpy(fields, block, 2); return;
    case WeightFormat::q4_1: std::memcpy(fields, block, 4); return;
    case WeightFormat::nvfp4:
      for (int sub = 0; sub < 4; ++sub) {
        const std::uint16_t bits = blocks::float_to_f16(0.5F * blocks::ue4m3_to_float(static_cast<std::uint8_t>(block[sub])));
        std::memcpy(fields + 2 * sub, &bits, 2);
      }
      return;
    case WeightFormat::q6_k:
      std::memcpy(fields, block + 208, 2);
      std::memcpy(fields + 2, block + 192, 16);
      return;
    default:
      std::memcpy(fields, block, 4);
      for (int p = 0; p < 8; ++p) {
        fields[4 + 2 * p] = static_cast<std::byte>(part_scale(block + 4, p));
        fields[5 + 2 * p] = static_cast<std::byte>(part_min(block + 4, p));
      }
  }
}

ElementParts stored_element(WeightFormat format, const std::byte* block, int k) {
  const int code = stored_code(format, block, k);
  const int p = k / 32;
  switch (format) {
    case WeightFormat::q4_1: return {half(block) * code, half(block + 2)};
    case WeightFormat::iq4_nl: return {half(block) * blocks::kIq4Nl[code], 0};
    case WeightFormat::nvfp4: return {double{blocks::ue4m3_to_float(static_cast<std::uint8_t>(block[k / 16]))} * blocks::kE2m1[code], 0};
    case WeightFormat::q6_k: return {half(block + 208) * static_cast<std::int8_t>(block[192 + k / 16]) * (code - 32), 0};
    default: return {half(block) * part_scale(block + 4, p) * code, -half(block + 2) * part_min(block + 4, p)};
  }
}

ElementParts packed_element(const WeightView& w, std::int64_t expert, std::int64_t row, std::int64_t index, int k) {
  const std::byte* data = w.data.get() + expert * w.expert_stride + packed_offset(w, row, index);
  const std::byte* scales = w.scales.get() + expert * w.scale_expert_stride;
  const auto code_byte = [&](int i) { return byte(data, i / 4 * 4 * traits(w.format).group + i % 4); };
  const auto field = [&](int at) { return scales + packed_scale_offset(w, row, index, at); };
  const int p = k / 32;
  const int l = k % 32;
  const int part_bytes = traits(w.format).block_bytes * 32 / traits(w.format).block;
  const int nibbles = code_byte(p * part_bytes + l % 16);
  int code = l < 16 ? nibbles % 16 : nibbles / 16;
  switch (w.format) {
    case WeightFormat::iq4_nl_r8: return {half(field(0)) * blocks::kIq4Nl[code], 0};
    case WeightFormat::q4_1_r8: return {half(field(0)) * code, half(field(2))};
    case WeightFormat::nvfp4_r8: return {half(field(2 * (k / 16))) * 2 * blocks::kE2m1[code], 0};
    case WeightFormat::q6_k_r8:
      code += 16 * ((code_byte(p * part_bytes + 16 + 4 * (l / 16) + l % 4) >> (2 * (l % 16 / 4))) % 4);
      return {half(field(0)) * static_cast<std::int8_t>(*field(2 + k / 16)) * (code - 32), 0};
    default:
      if (w.format == WeightFormat::q5_k_r8) code += 16 * ((code_byte(p * part_bytes + 16 + l % 4) >> (l / 4)) % 2);
      return {half(field(0)) * byte(field(4 + 2 * p), 0) * code, -half(field(2)) * byte(field(5 + 2 * p), 0)};
  }
}

}  // namespace plumb::kernels
