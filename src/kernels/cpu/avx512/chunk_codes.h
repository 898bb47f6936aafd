// Attention's products in codes by vpdpbusd, which multiplies bytes: codes of queries and weights are two digits of a byte. Same names as
// generic/chunk_codes.h.
//
// Keys are laid out so that lanes are keys and nothing is added up across lanes; values so that four keys lie beside each other.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// Elements of a block of dims, bytes of a vector.
inline constexpr int kCodeBlock = 64;
static_assert(kMaxHeadDim % kCodeBlock == 0);
inline int code_blocks(int head_dim) { return (head_dim + kCodeBlock - 1) / kCodeBlock; }
inline __mmask64 in_block(int head_dim, int block) {
  const int n = head_dim - block * kCodeBlock;
  return n >= kCodeBlock ? ~__mmask64{0} : (__mmask64{1} << n) - 1;
}

// One query head: code = 256 * high + low, zeros behind head_dim.
struct QueryCodes {
  alignas(64) std::int8_t high[kMaxHeadDim];
  alignas(64) std::int8_t low[kMaxHeadDim];
  std::int32_t excess_high;  // what is too much in a sum of products with keys that are 128 too large
  std::int32_t excess_low;
  float scale;
};

inline void encode_query(const float* q, int head_dim, QueryCodes& out) {
  alignas(64) std::int16_t codes[kMaxHeadDim];
  const int padded = code_blocks(head_dim) * kCodeBlock;
  out.scale = query_codes(q, head_dim, codes);
  for (int d = head_dim; d < padded; ++d) codes[d] = 0;
  std::int32_t high = 0;
  std::int32_t low = 0;
  for (int d = 0; d < padded; ++d) {
    out.low[d] = static_cast<std::int8_t>(codes[d]);
    out.high[d] = static_cast<std::int8_t>((codes[d] - out.low[d]) >> 8);
    high += out.high[d];
    low += out.low[d];
  }
  out.excess_high = 128 * high;
  out.excess_low = 128 * low;
}

// The weights of a chunk for one head: code = 256 * high + low.
struct WeightCodes {
  alignas(64) std::uint8_t high[kChunk];
  alignas(64) std::uint8_t low[kChunk];
  float scale;
};

inline void encode_weights(const float* weights, float inverse, float scale, WeightCodes& out) {
#pragma GCC unroll 4
  for (int j = 0; j < kChunk; j += 16) {
    const __m512i codes = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(weights + j), _mm512_set1_ps(inverse)));
    _mm_store_si128(reinterpret_cast<__m128i*>(out.high + j), _mm512_cvtepi32_epi8(_mm512_srli_epi32(codes, 8)));
    _mm_store_si128(reinterpret_cast<__m128i*>(out.low + j), _mm512_cvtepi32_epi8(codes));
  }
  out.scale = scale;
}

// Four bytes, in every lane.
inline __m512i four_bytes(const std::uint8_t* from) {
  std::int32_t four;
  std::memcpy(&four, from, 4);
  return _mm512_set1_epi32(four);
}

struct ChunkCodes {
  alignas(64) std::uint8_t k[kChunk * kMaxHeadDim];  // [groups][padded head_dim / 4][keys of a group][4], each 128 too large
  alignas(64) std::int8_t v[kChunk * kMaxHeadDim];   // [fours of keys][blocks][4][64]: value_block
};

// Pieces of `Bytes` bytes of the lower, or the upper, half of each 128 bits: of a and of b in turn.
template <int Bytes>
inline __m512i lower(__m512i a, __m512i b) {
  if constexpr (Bytes == 1) return _mm512_unpacklo_epi8(a, b);
  if constexpr (Bytes == 2) return _mm512_unpacklo_epi16(a, b);
  if constexpr (Bytes == 4) return _mm512_unpacklo_epi32(a, b);
  if constexpr (Bytes == 8) return _mm512_unpacklo_epi64(a, b);
}
template <int Bytes>
inline __m512i upper(__m512i a, __m512i b) {
  if constexpr (Bytes == 1) return _mm512_unpackhi_epi8(a, b);
  if constexpr (Bytes == 2) return _mm512_unpackhi_epi16(a, b);
  if constexpr (Bytes == 4) return _mm512_unpackhi_epi32(a, b);
  if constexpr (Bytes == 8) return _mm512_unpackhi_epi64(a, b);
}
// Four rows piece by piece beside each other, within each 128 bits: out[i] has its i-th quarter.
template <int Bytes>
inline void interleave(const __m512i* r, __m512i* out) {
  const __m512i ab_lower = lower<Bytes>(r[0], r[1]);
  const __m512i ab_upper = upper<Bytes>(r[0], r[1]);
  const __m512i cd_lower = lower<Bytes>(r[2], r[3]);
  const __m512i cd_upper = upper<Bytes>(r[2], r[3]);
  out[0] = lower<2 * Bytes>(ab_lower, cd_lower);
  out[1] = upper<2 * Bytes>(ab_lower, cd_lower);
  out[2] = lower<2 * Bytes>(ab_upper, cd_upper);
  out[3] = upper<2 * Bytes>(ab_upper, cd_upper);
}
// The 128-bit lanes of four vectors: out[i] has lane i of each.
inline void transpose_lanes(__m512i a, __m512i b, __m512i c, __m512i d, __m512i* out) {
  const __m512i ab_lo = _mm512_shuffle_i32x4(a, b, 0x44);
  const __m512i ab_hi = _mm512_shuffle_i32x4(a, b, 0xEE);
  const __m512i cd_lo = _mm512_shuffle_i32x4(c, d, 0x44);
  const __m512i cd_hi = _mm512_shuffle_i32x4(c, d, 0xEE);
  out[0] = _mm512_shuffle_i32x4(ab_lo, cd_lo, 0x88);
  out[1] = _mm512_shuffle_i32x4(ab_lo, cd_lo, 0xDD);
  out[2] = _mm512_shuffle_i32x4(ab_hi, cd_hi, 0x88);
  out[3] = _mm512_shuffle_i32x4(ab_hi, cd_hi, 0xDD);
}

// One block of dims of one group of keys, rows one after the other.
inline void lay_out_keys(const std::byte* rows, int head_dim, int block, std::uint8_t* to) {
  const __m512i excess = _mm512_set1_epi8(static_cast<char>(0x80));
  const __mmask64 in = in_block(head_dim, block);
  __m512i dwords[4][4];
#pragma GCC unroll 4
  for (int four = 0; four < 4; ++four) {
    __m512i r[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) r[i] = _mm512_xor_si512(_mm512_maskz_loadu_epi8(in, rows + (four * 4 + i) * head_dim + block * kCodeBlock), excess);
    interleave<4>(r, dwords[four]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    __m512i lanes[4];
    transpose_lanes(dwords[0][i], dwords[1][i], dwords[2][i], dwords[3][i], lanes);
#pragma GCC unroll 4
    for (int lane = 0; lane < 4; ++lane) _mm512_store_si512(to + (lane * 4 + i) * 64, lanes[lane]);
  }
}
inline void lay_out_keys(const KeyGroup& group, int g, int head_dim, ChunkCodes& out) {
  const int blocks = code_blocks(head_dim);
  ask_for_group_rows(group.with_keys, 0, kKeyGroup, head_dim);
  for (int block = 0; block < blocks; ++block) lay_out_keys(group.k, head_dim, block, out.k + (g * blocks + block) * kKeyGroup * kCodeBlock);
}

// One block of dims of four keys: vector t has, in 128 bits number L, dims 16 L + 4 t .. + 3 of the block, four keys each.
inline void lay_out_values(const std::byte* rows, int head_dim, int block, __m512i* out) {
  const __mmask64 in = in_block(head_dim, block);
  __m512i r[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) r[i] = _mm512_maskz_loadu_epi8(in, rows + i * head_dim + block * kCodeBlock);
  interleave<1>(r, out);
}
inline void store_values(const __m512i* values, std::int8_t* to) {
#pragma GCC unroll 4
  for (int t = 0; t < 4; ++t) _mm512_store_si512(to + t * 64, values[t]);
}
// Where a block of four keys lies.
inline std::int64_t values_at(int four, int blocks, int block) { return std::int64_t{four * blocks + block} * 4 * kCodeBlock; }

inline void lay_out(const KeyGroup* found, const Groups& groups, int head_dim, ChunkCodes& out) {
  const int blocks = code_blocks(head_dim);
  for (int g = groups.first; g < groups.end; ++g) {
    lay_out_keys(found[g], g, head_dim, out);
    for (int four = 0; four < kKeyGroup / 4; ++four) {
      for (int block = 0; block < blocks; ++block) {
        __m512i values[4];
        lay_out_values(found[g].v + four * 4 * head_dim, head_dim, block, values);
        store_values(values, out.v + values_at(g * kKeyGroup / 4 + four, blocks, block));
      }
    }
  }
}

// scores[r * kChunk + j] = the products of query r's codes with those of key j, added up, for the keys of a group.
template <int R>
inline void score_group(const QueryCodes* q, const std::uint8_t* k, int dwords, float* scores) {
  __m512i high[R];
  __m512i low[R];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    high[r] = _mm512_set1_epi32(-q[r].excess_high);
    low[r] = _mm512_set1_epi32(-q[r].excess_low);
  }
  for (int i = 0; i < dwords; ++i) {
    const __m512i keys = _mm512_load_si512(k + i * 64);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      high[r] = add_code_products(high[r], keys, q[r].high + i * 4);
      low[r] = add_code_products(low[r], keys, q[r].low + i * 4);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    const __m512i sum = _mm512_add_epi32(_mm512_slli_epi32(high[r], 8), low[r]);
    _mm512_storeu_ps(scores + r * kChunk, _mm512_cvtepi32_ps(sum));
  }
}

// Of a chunk. `found`: the groups, which are laid out first, or null.
template <int R>
inline void score_codes(const QueryCodes* q, const KeyGroup* found, ChunkCodes& codes, const Groups& groups, int head_dim, float* scores) {
  const int dwords = code_blocks(head_dim) * kCodeBlock / 4;
  for (int g = groups.first; g < groups.end; ++g) {
    if (found != nullptr) lay_out_keys(found[g], g, head_dim, codes);
    score_group<R>(q, codes.k + std::int64_t{g} * dwords * 64, dwords, scores + g * kKeyGroup);
  }
}

// o[r][d] = keep[r] * o[r][d] + the scale times the products of head r's weights with a block of values, for the keys of `groups`.
template <int R>
inline void value_block(const WeightCodes* weights, const float* keep, const KeyGroup* found, ChunkCodes& codes, const Groups& groups, int block,
                        int head_dim, float* o) {
  __m512i high[R][4];
  __m512i low[R][4];
#pragma GCC unroll 2
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int t = 0; t < 4; ++t) high[r][t] = low[r][t] = _mm512_setzero_si512();
  }
  const int blocks = code_blocks(head_dim);
  for (int j = groups.first * kKeyGroup; j < groups.end * kKeyGroup; j += 4) {
    std::int8_t* at = codes.v + values_at(j / 4, blocks, block);
    __m512i values[4];
    if (found != nullptr) {
      const KeyGroup& group = found[j / kKeyGroup];
      const int in_group = j % kKeyGroup;
      if (block == 0) ask_for_group_rows(group.with_values, in_group, 4, head_dim);
      lay_out_values(group.v + in_group * head_dim, head_dim, block, values);
      store_values(values, at);
    } else {
#pragma GCC unroll 4
      for (int t = 0; t < 4; ++t) values[t] = _mm512_load_si512(at + t * 64);
    }
#pragma GCC unroll 2
    for (int r = 0; r < R; ++r) {
      const __m512i h = four_bytes(weights[r].high + j);
      const __m512i l = four_bytes(weights[r].low + j);
#pragma GCC unroll 4
      for (int t = 0; t < 4; ++t) high[r][t] = add_byte_products(high[r][t], h, values[t]);
#pragma GCC unroll 4
      for (int t = 0; t < 4; ++t) low[r][t] = add_byte_products(low[r][t], l, values[t]);
    }
  }
#pragma GCC unroll 2
  for (int r = 0; r < R; ++r) {
    __m512i sums[4];
    __m512i lanes[4];
#pragma GCC unroll 4
    for (int t = 0; t < 4; ++t) sums[t] = _mm512_add_epi32(_mm512_slli_epi32(high[r][t], 8), low[r][t]);
    transpose_lanes(sums[0], sums[1], sums[2], sums[3], lanes);
    const __m512 scale = _mm512_set1_ps(weights[r].scale);
    const __m512 before = _mm512_set1_ps(keep[r]);
#pragma GCC unroll 4
    for (int lane = 0; lane < 4; ++lane) {
      const int n = head_dim - block * kCodeBlock - lane * 16;
      if (n <= 0) break;
      const auto in = static_cast<__mmask16>(n >= 16 ? 0xFFFF : (1 << n) - 1);
      float* to = o + r * head_dim + block * kCodeBlock + lane * 16;
      _mm512_mask_storeu_ps(to, in, _mm512_fmadd_ps(_mm512_cvtepi32_ps(lanes[lane]), scale, _mm512_mul_ps(_mm512_maskz_loadu_ps(in, to), before)));
    }
  }
}

template <int R>
inline void value_codes(const WeightCodes* weights, const float* keep, const KeyGroup* found, ChunkCodes& codes, const Groups& groups, int head_dim,
                        float* o) {
  constexpr int kAtOnce = R < 2 ? 1 : 2;  // two heads are sixteen sums
  for (int r = 0; r < R; r += kAtOnce) {
    for (int block = 0; block < code_blocks(head_dim); ++block) {
      value_block<kAtOnce>(weights + r, keep + r, r == 0 ? found : nullptr, codes, groups, block, head_dim, o + r * head_dim);
    }
  }
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
