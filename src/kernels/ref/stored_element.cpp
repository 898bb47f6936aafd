#include "kernels/ref/stored_element.h"

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

ElementParts stored_element(WeightFormat format, const std::byte* block, int k) {
  const int p = k / 32;
  const int l = k % 32;
  switch (format) {
    case WeightFormat::q4_1: return {half(block) * nibble(block + 4, k % 16, k >= 16), half(block + 2)};
    case WeightFormat::iq4_nl: return {half(block) * blocks::kIq4Nl[nibble(block + 2, k % 16, k >= 16)], 0};
    case WeightFormat::nvfp4: {
      const int sub = k / 16;
      const double scale = blocks::ue4m3_to_float(static_cast<std::uint8_t>(block[sub]));
      return {scale * double{blocks::kE2m1[nibble(block + 4, 8 * sub + k % 8, k % 16 >= 8)]}, 0};
    }
    case WeightFormat::q4_k:
    case WeightFormat::q5_k: {
      const bool five = format == WeightFormat::q5_k;
      int code = nibble(block + (five ? 48 : 16), 32 * (p / 2) + l, p % 2 == 1);
      if (five) code += 16 * ((byte(block, 16 + l) >> p) % 2);
      return {half(block) * part_scale(block + 4, p) * code, -half(block + 2) * part_min(block + 4, p)};
    }
    case WeightFormat::q6_k: {
      const int h = p / 4;
      const int i = p % 4;
      const int low = nibble(block, 64 * h + 32 * (i % 2) + l, i >= 2);
      const int upper = (byte(block, 128 + 32 * h + l) >> (2 * i)) % 4;
      const int scale = static_cast<std::int8_t>(block[192 + k / 16]);
      return {half(block + 208) * scale * (low + 16 * upper - 32), 0};
    }
    default: PLUMB_CHECK(!"a format with parts"); return {};
  }
}

}  // namespace plumb::kernels
