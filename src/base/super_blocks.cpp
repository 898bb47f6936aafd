#include "base/super_blocks.h"

#include <cstring>

#include "base/blocks.h"

namespace plumb::blocks {
namespace {

constexpr int kPart = 32;

std::uint16_t load_u16(const std::uint8_t* from) {
  return static_cast<std::uint16_t>(from[0] | (from[1] << 8));
}
void store_u16(std::uint16_t value, std::uint8_t* to) {
  to[0] = static_cast<std::uint8_t>(value);
  to[1] = static_cast<std::uint8_t>(value >> 8);
}

void nibbles(const std::uint8_t* bytes, int part, std::uint8_t* codes) {
  const std::uint8_t* at = bytes + part / 2 * kPart;
  for (int l = 0; l < kPart; ++l) codes[l] = static_cast<std::uint8_t>((at[l] >> (part % 2 * 4)) & 15);
}

void write_header(const MinBlock& from, std::uint8_t* block) {
  store_u16(from.d, block);
  store_u16(from.dmin, block + 2);
  std::uint8_t* pairs = block + kQ4kPairs;
  for (int p = 0; p < 4; ++p) {
    const ScalePair low = from.pairs[p], high = from.pairs[p + 4];
    pairs[p] = static_cast<std::uint8_t>(low.scale | (high.scale >> 4 << 6));
    pairs[p + 4] = static_cast<std::uint8_t>(low.min | (high.min >> 4 << 6));
    pairs[p + 8] = static_cast<std::uint8_t>((high.scale & 15) | ((high.min & 15) << 4));
  }
}

void write_nibbles(const MinBlock& from, std::uint8_t* to) {
  for (int i = 0; i < kSuper / 2; ++i) {
    const std::uint8_t* codes = from.codes + i / kPart * 2 * kPart + i % kPart;
    to[i] = static_cast<std::uint8_t>((codes[0] & 15) | ((codes[kPart] & 15) << 4));
  }
}

void decode_with_min(const std::uint8_t* block, int part, const std::uint8_t* codes, float* out) {
  const ScalePair pair = scale_pair(block + kQ4kPairs, part);
  const float scale = f16_to_float(load_u16(block)) * static_cast<float>(pair.scale);
  const float min = f16_to_float(load_u16(block + 2)) * static_cast<float>(pair.min);
  for (int l = 0; l < kPart; ++l) out[l] = scale * static_cast<float>(codes[l]) - min;
}

}  // namespace

void q4_k_codes(const std::uint8_t* block, int part, std::uint8_t* codes) { nibbles(block + kQ4kNibbles, part, codes); }

void q5_k_codes(const std::uint8_t* block, int part, std::uint8_t* codes) {
  nibbles(block + kQ5kNibbles, part, codes);
  for (int l = 0; l < kPart; ++l) codes[l] = static_cast<std::uint8_t>(codes[l] | ((block[kQ5kUpper + l] >> part & 1) << 4));
}

void q6_k_codes(const std::uint8_t* block, int part, std::uint8_t* codes) {
  const int half = part / 4;
  const int i = part % 4;
  const std::uint8_t* low = block + 64 * half + 32 * (i % 2);
  const std::uint8_t* upper = block + kQ6kUpper + 32 * half;
  for (int l = 0; l < kPart; ++l) {
    codes[l] = static_cast<std::uint8_t>(((low[l] >> (i / 2 * 4)) & 15) | (((upper[l] >> (2 * i)) & 3) << 4));
  }
}

void write_q4_k(const MinBlock& from, std::uint8_t* block) {
  write_header(from, block);
  write_nibbles(from, block + kQ4kNibbles);
}

void write_q5_k(const MinBlock& from, std::uint8_t* block) {
  write_header(from, block);
  std::memset(block + kQ5kUpper, 0, kPart);
  for (int k = 0; k < kSuper; ++k) {
    block[kQ5kUpper + k % kPart] = static_cast<std::uint8_t>(block[kQ5kUpper + k % kPart] | (from.codes[k] >> 4 << (k / kPart)));
  }
  write_nibbles(from, block + kQ5kNibbles);
}

void write_q6_k(const SixBitBlock& from, std::uint8_t* block) {
  std::memset(block, 0, kQ6kBytes);
  for (int k = 0; k < kSuper; ++k) {
    const int half = k / 128, i = k % 128 / kPart, l = k % kPart;
    std::uint8_t& low = block[64 * half + 32 * (i % 2) + l];
    std::uint8_t& upper = block[kQ6kUpper + 32 * half + l];
    low = static_cast<std::uint8_t>(low | ((from.codes[k] & 15) << (i / 2 * 4)));
    upper = static_cast<std::uint8_t>(upper | (from.codes[k] >> 4 << (2 * i)));
  }
  std::memcpy(block + kQ6kScales, from.scales, sizeof from.scales);
  store_u16(from.d, block + kQ6kD);
}

void decode_q4_k(const std::uint8_t* block, int part, float* out) {
  std::uint8_t codes[kPart];
  q4_k_codes(block, part, codes);
  decode_with_min(block, part, codes, out);
}

void decode_q5_k(const std::uint8_t* block, int part, float* out) {
  std::uint8_t codes[kPart];
  q5_k_codes(block, part, codes);
  decode_with_min(block, part, codes, out);
}

void decode_q6_k(const std::uint8_t* block, int part, float* out) {
  std::uint8_t codes[kPart];
  q6_k_codes(block, part, codes);
  const float d = f16_to_float(load_u16(block + kQ6kD));
  for (int l = 0; l < kPart; ++l) {
    const float scale = d * static_cast<float>(static_cast<std::int8_t>(block[kQ6kScales + 2 * part + l / 16]));
    out[l] = scale * static_cast<float>(codes[l] - 32);
  }
}

}  // namespace plumb::blocks
