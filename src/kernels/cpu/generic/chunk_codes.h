// Attention's products in codes (kernels/api/attention.h), by sums of eight lanes whose operations are the set's (word_products.h). Sums of
// integers are exact, so their order is each set's own.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// Elements that one product of keys takes; rows are laid out in whole ones.
inline constexpr int kCodeStep = 16;
static_assert(kMaxHeadDim % kCodeStep == 0);
inline int padded_dims(int head_dim) { return (head_dim + kCodeStep - 1) / kCodeStep * kCodeStep; }

// One query head, zeros behind head_dim.
struct QueryCodes {
  alignas(32) std::int16_t codes[kMaxHeadDim];
  float scale;
};

inline void encode_query(const float* q, int head_dim, QueryCodes& out) {
  out.scale = query_codes(q, head_dim, out.codes);
  for (int d = head_dim; d < padded_dims(head_dim); ++d) out.codes[d] = 0;
}

// The weights of a chunk for one head.
struct WeightCodes {
  alignas(32) std::int16_t codes[kChunk];
  float scale;
};
inline void encode_weights(const float* weights, float inverse, float scale, WeightCodes& out) {
  for (int j = 0; j < kChunk; ++j) out.codes[j] = static_cast<std::int16_t>(nearest(weights[j] * inverse));
  out.scale = scale;
}

struct ChunkCodes {
  alignas(32) std::int16_t k[kChunk * kMaxHeadDim];  // [kChunk][padded head_dim]
  alignas(32) std::int16_t v[kChunk * kMaxHeadDim];  // [pairs of keys][padded head_dim / 8][2][8], the last two as the set's pair16 has them
};

// What is left of a row behind whole steps: eight elements and zeros.
struct LastStep {
  std::byte bytes[kCodeStep] = {};
  explicit LastStep(const std::byte* from) { std::memcpy(bytes, from, 8); }
};

// Keys j and j + 1 of a group, whose rows follow each other.
inline void lay_out_keys(const std::byte* k, int head_dim, std::int16_t* to) {
  const int padded = padded_dims(head_dim);
  const int whole = head_dim / kCodeStep * kCodeStep;
  for (int j = 0; j < 2; ++j, k += head_dim, to += padded) {
    for (int d = 0; d < whole; d += kCodeStep) words16(k + d, to + d);
    if (whole < head_dim) words16(LastStep(k + whole).bytes, to + whole);
  }
}
inline void lay_out_values(const std::byte* v, int head_dim, std::int16_t* to) {
  const int whole = head_dim / kCodeStep * kCodeStep;
  for (int d = 0; d < whole; d += kCodeStep) pair16(v + d, v + head_dim + d, to + std::ptrdiff_t{2} * d);
  if (whole < head_dim) pair16(LastStep(v + whole).bytes, LastStep(v + head_dim + whole).bytes, to + std::ptrdiff_t{2} * whole);
}

inline void lay_out_keys(const KeyGroup& group, int g, int head_dim, ChunkCodes& out) {
  const std::int64_t at = std::int64_t{g} * kKeyGroup * padded_dims(head_dim);
  for (int j = 0; j < kKeyGroup; j += 2) {
    ask_for_group_rows(group.with_keys, j, 2, head_dim);
    lay_out_keys(group.k + std::ptrdiff_t{j} * head_dim, head_dim, out.k + at + j * padded_dims(head_dim));
  }
}
inline void lay_out_values(const KeyGroup& group, int g, int head_dim, ChunkCodes& out) {
  const std::int64_t at = std::int64_t{g} * kKeyGroup * padded_dims(head_dim);
  for (int j = 0; j < kKeyGroup; j += 2) {
    ask_for_group_rows(group.with_values, j, 2, head_dim);
    lay_out_values(group.v + std::ptrdiff_t{j} * head_dim, head_dim, out.v + at + j * padded_dims(head_dim));
  }
}
inline void lay_out(const KeyGroup* found, const Groups& groups, int head_dim, ChunkCodes& out) {
  for (int g = groups.first; g < groups.end; ++g) {
    lay_out_keys(found[g], g, head_dim, out);
    lay_out_values(found[g], g, head_dim, out);
  }
}

// scores[r * kChunk + j] = the products of query r's codes with those of key j, added up, for R heads and N keys.
template <int R, int N>
inline void score_words(const QueryCodes* q, const std::int16_t* k, int padded, float* scores) {
  I32x8 sums[R][N];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) sums[r][n] = zero_sums();
  }
  for (int d = 0; d < padded; d += kCodeStep) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) sums[r][n] = add_products16(sums[r][n], q[r].codes + d, k + n * padded + d);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) scores[r * kChunk + n] = static_cast<float>(total(sums[r][n]));
  }
}

// Of a chunk. `found`: the groups, which are laid out first, or null.
template <int R>
inline void score_codes(const QueryCodes* q, const KeyGroup* found, ChunkCodes& codes, const Groups& groups, int head_dim, float* scores) {
  constexpr int N = 8 / R;
  const int padded = padded_dims(head_dim);
  for (int g = groups.first; g < groups.end; ++g) {
    if (found != nullptr) lay_out_keys(found[g], g, head_dim, codes);
    for (int j = g * kKeyGroup; j < (g + 1) * kKeyGroup; j += N) score_words<R, N>(q, codes.k + std::int64_t{j} * padded, padded, scores + j);
  }
}

// o[r][d] = keep[r] * o[r][d] + the scale times the products of head r's weights with the values, for R heads, D times eight elements, and the
// keys of `groups`.
template <int R, int D>
inline void value_words(const WeightCodes* weights, const float* keep, const std::int16_t* v, int padded, const Groups& groups, int head_dim,
                        float* o) {
  I32x8 sums[R][D];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int d = 0; d < D; ++d) sums[r][d] = zero_sums();
  }
  for (int j = groups.first * kKeyGroup; j < groups.end * kKeyGroup; j += 2) {
    const std::int16_t* pair = v + std::int64_t{j} * padded;
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const WordPair weight = word_pair(weights[r].codes + j);
#pragma GCC unroll 8
      for (int d = 0; d < D; ++d) sums[r][d] = add_pair_products(sums[r][d], weight, pair + d * 16);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int d = 0; d < D; ++d) {
      float* to = o + r * head_dim + d * 8;
      store8(to, mul_add(to_floats(sums[r][d]), splat(weights[r].scale), load8(to) * splat(keep[r])));
    }
  }
}

template <int R>
inline void value_codes(const WeightCodes* weights, const float* keep, const KeyGroup* found, ChunkCodes& codes, const Groups& groups, int head_dim,
                        float* o) {
  constexpr int D = 8 / R;
  const int padded = padded_dims(head_dim);
  for (int g = groups.first; found != nullptr && g < groups.end; ++g) lay_out_values(found[g], g, head_dim, codes);
  int d = 0;
  for (; d + D * 8 <= head_dim; d += D * 8) value_words<R, D>(weights, keep, codes.v + std::ptrdiff_t{2} * d, padded, groups, head_dim, o + d);
  for (; d < head_dim; d += 8) value_words<R, 1>(weights, keep, codes.v + std::ptrdiff_t{2} * d, padded, groups, head_dim, o + d);
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
