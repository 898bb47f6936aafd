// The two products of a chunk for up to kHeadTile query heads, by vectors of sixteen. Same names as generic/chunk_heads.h, and the same
// bits: a score's eight chains are half a vector, whose other half is another key's; a value's sixteen lanes are independent.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// exp_lanes of what is not above 0, to the bit: nothing overflows, and vscalefps keeps a NaN and needs no clamping.
inline __m512 exp_not_above_one(__m512 x) {
  __m512 n, shifted;
  const __m512 p = exp_fraction(x, n, shifted);
  return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, every(x, -87.33F), _CMP_NLT_UQ), p, n);
}

// Keys of a tile of scores: four vectors of two.
inline constexpr int kWideKeys = 8;

// Neighbours added up, in each 128 bits: a0+a1, a2+a3, b0+b1, b2+b3.
inline __m512 add_pairs(__m512 a, __m512 b) {
  return _mm512_add_ps(_mm512_shuffle_ps(a, b, _MM_SHUFFLE(2, 0, 2, 0)), _mm512_shuffle_ps(a, b, _MM_SHUFFLE(3, 1, 3, 1)));
}
// The sums of four lanes of the halves of four vectors: lanes 0..3 of the lower halves, lanes 4..7 of the lower, then likewise of the upper.
inline __m512 sums_of_quarters(const __m512* x) { return add_pairs(add_pairs(x[0], x[1]), add_pairs(x[2], x[3])); }
// From two of these: the sums of the four lower halves, then those of the four upper, in sum8's order; of a, then of b.
inline __m512 sums_of_halves(__m512 a, __m512 b) {
  return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, _MM_SHUFFLE(2, 0, 2, 0)), _mm512_shuffle_f32x4(a, b, _MM_SHUFFLE(3, 1, 3, 1)));
}

// scores[r * kChunk + j] = q[r] . k[j] for R heads and j < n <= 8. Vector i has keys i and i + 4; where there are fewer, the last again.
template <KvFormat F, int R>
inline void score_wide(const float* const* q, const std::byte* k, int n, int head_dim, float* scores) {
  const std::int64_t stride = head_dim * kv_element_bytes(F);
  const std::byte* key[kWideKeys];
#pragma GCC unroll 8
  for (int j = 0; j < kWideKeys; ++j) key[j] = k + (j < n ? j : n - 1) * stride;
  __m512 acc[R][4];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) acc[r][i] = _mm512_setzero_ps();
  }
  for (int d = 0; d < head_dim; d += 8) {
    const std::int64_t at = d * kv_element_bytes(F);
    __m512 keys[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) keys[i] = WideKv<F>::pair(key[i] + at, key[i + 4] + at);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const __m512 x = _mm512_broadcast_f32x8(_mm256_loadu_ps(q[r] + d));
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) acc[r][i] = _mm512_fmadd_ps(keys[i], x, acc[r][i]);
    }
  }
  const auto stored = static_cast<__mmask8>((1U << n) - 1);
#pragma GCC unroll 2
  for (int r = 0; r < R; r += 2) {
    const __m512 first = sums_of_quarters(acc[r]);
    const __m512 both = sums_of_halves(first, r + 1 < R ? sums_of_quarters(acc[r + 1]) : first);
    _mm256_mask_storeu_ps(scores + r * kChunk, stored, _mm512_castps512_ps256(both));
    if (r + 1 < R) _mm256_mask_storeu_ps(scores + (r + 1) * kChunk, stored, _mm512_extractf32x8_ps(both, 1));
  }
}

template <KvFormat F, int R>
inline void score_keys(const float* const* q, const KeyRun& run, int head_dim, bool ask, float* scores) {
  const std::int64_t stride = head_dim * kv_element_bytes(F);
  const std::byte* ahead = ask ? run.k_ahead : nullptr;
  for (int j = 0; j < run.count; j += kWideKeys) {
    const int n = run.count - j < kWideKeys ? run.count - j : kWideKeys;
    if (ahead != nullptr) ask_for_keys(ahead + j * stride, n * stride, run.near);
    score_wide<F, R>(q, run.k + j * stride, n, head_dim, scores + j);
  }
}

// (each_tile's lambdas hold no vector: bodies of lambdas miss the target pragma.)
template <KvFormat F>
inline void score_heads(const float* const* q, int heads, const KeyRun& run, int head_dim, float* scores) {
  each_tile(heads, [&](auto tile, int h) {
    constexpr int R = decltype(tile)::value;
    score_keys<F, R>(q + h, run, head_dim, h == 0, scores + h * kChunk);
  });
}

// What value_tile needs of vectors of sixteen.
template <KvFormat F>
struct Values16 {
  using Vector = __m512;
  static constexpr int kLanes = 16;
  static Vector values(const std::byte* from) { return WideKv<F>::run(from); }
  static Vector sums(const float* from, float keep) { return _mm512_mul_ps(_mm512_loadu_ps(from), _mm512_set1_ps(keep)); }
  static void store(float* to, Vector x) { _mm512_storeu_ps(to, x); }
  static Vector weight(float x) { return _mm512_set1_ps(x); }
  static Vector add(Vector weight, Vector values, Vector sums) { return _mm512_fmadd_ps(weight, values, sums); }
};

template <KvFormat F, int R>
inline void value_rows(const float* p, const float* keep, const ChunkRuns& runs, std::int64_t chunk, int head_dim, bool ask, float* o) {
  int d = 0;
  for (; d + 64 <= head_dim; d += 64) value_tile<Values16, F, R, 4>(p, keep, runs, chunk, d, head_dim, ask, o);
  for (; d + 16 <= head_dim; d += 16) value_tile<Values16, F, R, 1>(p, keep, runs, chunk, d, head_dim, ask, o);
  if (d < head_dim) value_tile<Values8, F, R, 1>(p, keep, runs, chunk, d, head_dim, ask, o);
}

template <KvFormat F>
inline void value_heads(const float* p, const float* keep, int heads, const ChunkRuns& runs, std::int64_t chunk, int head_dim, float* o) {
  each_tile(heads, [&](auto tile, int h) {
    constexpr int R = decltype(tile)::value;
    value_rows<F, R>(p + h * kChunk, keep + h, runs, chunk, head_dim, h == 0, o + h * head_dim);
  });
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
