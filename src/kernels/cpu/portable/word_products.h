// Sums of products of 16-bit words. Same names as avx2/word_products.h.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

struct I32x8 {
  std::int32_t lanes[8];
};
inline I32x8 zero_sums() { return {}; }

// Sixteen signed bytes as words.
inline void words16(const std::byte* from, std::int16_t* to) {
  for (int i = 0; i < 16; ++i) to[i] = static_cast<std::int8_t>(from[i]);
}
// Sixteen bytes of two keys: eight of the one, eight of the other, and the next eight of both.
inline void pair16(const std::byte* a, const std::byte* b, std::int16_t* to) {
  for (int i = 0; i < 16; ++i) {
    std::int16_t* eight = to + i / 8 * 16 + i % 8;
    eight[0] = static_cast<std::int8_t>(a[i]);
    eight[8] = static_cast<std::int8_t>(b[i]);
  }
}

// sums + sixteen products, in any lanes.
inline I32x8 add_products16(I32x8 sums, const std::int16_t* a, const std::int16_t* b) {
  for (int i = 0; i < 16; ++i) sums.lanes[i % 8] += a[i] * b[i];
  return sums;
}
inline std::int32_t total(I32x8 sums) {
  std::int32_t all = 0;
  for (const std::int32_t lane : sums.lanes) all += lane;
  return all;
}

// The weights of two keys.
struct WordPair {
  std::int16_t first, second;
};
inline WordPair word_pair(const std::int16_t* weights) { return {weights[0], weights[1]}; }
// sums + for each of eight elements of what pair16 wrote, weight times value of the one key and of the other.
inline I32x8 add_pair_products(I32x8 sums, WordPair weight, const std::int16_t* pair) {
  for (int d = 0; d < 8; ++d) sums.lanes[d] += weight.first * pair[d] + weight.second * pair[8 + d];
  return sums;
}
inline F32x8 to_floats(I32x8 sums) {
  float lanes[8];
  for (int i = 0; i < 8; ++i) lanes[i] = static_cast<float>(sums.lanes[i]);
  return load8(lanes);
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
