// The "K" formats of GGUF: 256 elements share one or two half-precision scales, and each part of 32 (or 16) has a small integer
// scale of its own. Companion of base/blocks.h, under the same rule: this is what fast kernels are held to.
//
// Layouts (little-endian), from ggml's published block definitions; p is a part of 32 elements, l an element of it:
//   q4_k   144 bytes: f16 d, f16 dmin, 12 bytes of 6-bit pairs (scale, min) for 8 parts, 128 bytes of nibbles: byte 32 (p / 2) + l,
//          low nibble for even p, high for odd. value = d * scale * code - dmin * min.
//   q5_k   176 bytes: as q4_k with 32 bytes between the pairs and the nibbles: bit p of byte l is bit 4 of the code.
//   q6_k   210 bytes: 128 bytes of nibbles, 64 bytes of upper bits, 16 signed scales (one for 16 elements), f16 d. With h = p / 4
//          and i = p % 4: nibble (low for i < 2) of byte 64 h + 32 (i % 2) + l, bits 2 i and 2 i + 1 of upper byte 32 h + l.
//          value = d * scale * (code - 32).
//   The 12 bytes of pairs: the low six bits of bytes 0..3 are scales 0..3, of bytes 4..7 mins 0..3. For parts 4..7, byte p + 4 has the
//   low four bits of scale (low nibble) and min (high nibble); their upper two bits are the top bits of bytes p - 4 and p.
//
// Decoding gives the exact value rounded once to float: products of the fields are exact, a subtraction of two of them may not be.
// Thread rule: pure functions.
#pragma once

#include <cstdint>

namespace plumb::blocks {

inline constexpr int kSuper = 256;             // elements of a block
inline constexpr int kSuperParts = 8;          // parts of 32
inline constexpr int kQ4kBytes = 144;
inline constexpr int kQ5kBytes = 176;
inline constexpr int kQ6kBytes = 210;
inline constexpr int kPairBytes = 12;
// Where the fields of a block begin.
inline constexpr int kQ4kPairs = 4, kQ4kNibbles = 16;
inline constexpr int kQ5kPairs = 4, kQ5kUpper = 16, kQ5kNibbles = 48;
inline constexpr int kQ6kUpper = 128, kQ6kScales = 192, kQ6kD = 208;

struct ScalePair {
  std::uint8_t scale = 0, min = 0;  // 0..63
};
// Pair `part` of the 12 bytes.
inline ScalePair scale_pair(const std::uint8_t* pairs, int part) {
  if (part < 4) return {static_cast<std::uint8_t>(pairs[part] & 63), static_cast<std::uint8_t>(pairs[part + 4] & 63)};
  return {static_cast<std::uint8_t>((pairs[part + 4] & 15) | (pairs[part - 4] >> 6 << 4)),
          static_cast<std::uint8_t>((pairs[part + 4] >> 4) | (pairs[part] >> 6 << 4))};
}

// A Q4_K or Q5_K block taken apart.
struct MinBlock {
  std::uint16_t d = 0, dmin = 0;  // f16
  ScalePair pairs[kSuperParts];
  std::uint8_t codes[kSuper] = {};  // 0..15 or 0..31
};
// A Q6_K block taken apart.
struct SixBitBlock {
  std::uint16_t d = 0;  // f16
  std::int8_t scales[16] = {};
  std::uint8_t codes[kSuper] = {};  // 0..63
};

// The 32 codes of a part.
void q4_k_codes(const std::uint8_t* block, int part, std::uint8_t* codes);
void q5_k_codes(const std::uint8_t* block, int part, std::uint8_t* codes);
void q6_k_codes(const std::uint8_t* block, int part, std::uint8_t* codes);

void write_q4_k(const MinBlock& from, std::uint8_t* block);
void write_q5_k(const MinBlock& from, std::uint8_t* block);
void write_q6_k(const SixBitBlock& from, std::uint8_t* block);

// The 32 values of a part.
void decode_q4_k(const std::uint8_t* block, int part, float* out);
void decode_q5_k(const std::uint8_t* block, int part, float* out);
void decode_q6_k(const std::uint8_t* block, int part, float* out);

}  // namespace plumb::blocks
