// One chunk of keys against a few query heads of one row: the inner step that every attention kernel shares, so that their bits
// agree. Scores by chains of eight lanes added up as in dot.h; one update of (m, l); values added in the order of the keys.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// Query heads that walk K and V together: the groups of 8 of gpt-oss. Larger groups walk the keys again.
inline constexpr int kHeadTile = 8;

// The running softmax of a slice, for the heads of a tile.
struct HeadTile {
  int heads;
  float largest[kHeadTile];  // m
  float total[kHeadTile];    // l
  alignas(32) float scores[kHeadTile][kChunk];
};

// scores[r][j] = q[r] . k[j] for R heads and N keys.
template <class E, int R, int N>
inline void score_tile(const float* const* q, const std::byte* k, int head_dim, float* scores) {
  const std::int64_t stride = std::int64_t{head_dim} * E::kBytes;
  F32x8 acc[R][N];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) acc[r][n] = zero8();
  }
  for (int d = 0; d < head_dim; d += 8) {
    F32x8 keys[N];
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) keys[n] = E::load(k + n * stride + d * E::kBytes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const F32x8 x = load8(q[r] + d);
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) acc[r][n] = mul_add(keys[n], x, acc[r][n]);
    }
  }
  if constexpr (N % 4 == 0) {
    for (int r = 0; r < R; ++r) {
      for (int n = 0; n < N; n += 4) sum8x4(acc[r][n], acc[r][n + 1], acc[r][n + 2], acc[r][n + 3], scores + r * kChunk + n);
    }
  } else if constexpr (N == 2 && R % 2 == 0) {
    for (int r = 0; r < R; r += 2) {
      float sums[4];
      sum8x4(acc[r][0], acc[r][1], acc[r + 1][0], acc[r + 1][1], sums);
      std::memcpy(scores + r * kChunk, sums, 8);
      std::memcpy(scores + (r + 1) * kChunk, sums + 2, 8);
    }
  } else {
    for (int r = 0; r < R; ++r) {
      for (int n = 0; n < N; ++n) scores[r * kChunk + n] = sum8(acc[r][n]);
    }
  }
}

template <class E, int R, int N>
inline void score_run(const float* const* q, const KeyRun& run, int head_dim, float* scores) {
  const std::int64_t stride = std::int64_t{head_dim} * E::kBytes;
  int j = 0;
  for (; j + N <= run.count; j += N) score_tile<E, R, N>(q, run.k + j * stride, head_dim, scores + j);
  for (; j < run.count; ++j) score_tile<E, R, 1>(q, run.k + j * stride, head_dim, scores + j);
}

// o[r][d] += sum over keys j in order of p[r][j] * v[j][d], for R heads and D vectors of d.
template <class E, int R, int D>
inline void value_tile(const float* p, const ChunkRuns& runs, std::int64_t chunk, int first_d, int head_dim, float* o) {
  F32x8 acc[R][D];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int d = 0; d < D; ++d) acc[r][d] = load8(o + r * head_dim + first_d + d * 8);
  }
  const std::int64_t stride = std::int64_t{head_dim} * E::kBytes;
  for (int i = 0; i < runs.count; ++i) {
    const KeyRun& run = runs.runs[i];
    const float* weights = p + (run.first - chunk);
    const std::byte* v = run.v + first_d * E::kBytes;
    for (int j = 0; j < run.count; ++j, v += stride) {
      F32x8 values[D];
#pragma GCC unroll 8
      for (int d = 0; d < D; ++d) values[d] = E::load(v + d * 8 * E::kBytes);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const F32x8 weight = splat(weights[r * kChunk + j]);
#pragma GCC unroll 8
        for (int d = 0; d < D; ++d) acc[r][d] = mul_add(weight, values[d], acc[r][d]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int d = 0; d < D; ++d) store8(o + r * head_dim + first_d + d * 8, acc[r][d]);
  }
}

template <class E, int R, int D>
inline void value_rows(const float* p, const ChunkRuns& runs, std::int64_t chunk, int head_dim, float* o) {
  int d = 0;
  for (; d + D * 8 <= head_dim; d += D * 8) value_tile<E, R, D>(p, runs, chunk, d, head_dim, o);
  for (; d < head_dim; d += 8) value_tile<E, R, 1>(p, runs, chunk, d, head_dim, o);
}

// Calls f<R>(h) for heads h..h+R-1 in tiles of 4, 2 and 1. Eight chains of additions fill the two FMA units for their four cycles.
template <class F>
inline void each_tile(int heads, F&& f) {
  int h = 0;
  for (; h + 4 <= heads; h += 4) f(std::integral_constant<int, 4>{}, h);
  if (h + 2 <= heads) {
    f(std::integral_constant<int, 2>{}, h);
    h += 2;
  }
  if (h < heads) f(std::integral_constant<int, 1>{}, h);
}

// Scores -infinity wherever the chunk has no visible key.
inline void hide_invisible(float* scores, std::int64_t chunk, const ChunkRuns& runs) {
  int next = 0;
  for (int i = 0; i < runs.count; ++i) {
    const int from = static_cast<int>(runs.runs[i].first - chunk);
    while (next < from) scores[next++] = -std::numeric_limits<float>::infinity();
    next = from + runs.runs[i].count;
  }
  while (next < kChunk) scores[next++] = -std::numeric_limits<float>::infinity();
}

// The scales of the chunk's keys; 1 where there is no key.
inline void spread_scales(const ChunkRuns& runs, std::int64_t chunk, const float* KeyRun::*scales, float* out) {
  for (int j = 0; j < kChunk; ++j) out[j] = 1;
  for (int i = 0; i < runs.count; ++i) {
    const KeyRun& run = runs.runs[i];
    std::memcpy(out + (run.first - chunk), run.*scales, static_cast<std::size_t>(run.count) * 4);
  }
}

// Raw scores to probabilities against the new maximum; rescales what was gathered before. Invisible places score -infinity and
// weigh 0. A score that is not finite makes the head's total NaN, and so its output.
template <bool Scaled>
inline void weigh(HeadTile& t, const AttentionArgs& a, const ChunkRuns& runs, std::int64_t chunk, int head_dim, float* o) {
  alignas(32) float k_scales[kChunk];
  alignas(32) float v_scales[kChunk];
  if constexpr (Scaled) {
    spread_scales(runs, chunk, &KeyRun::k_scales, k_scales);
    spread_scales(runs, chunk, &KeyRun::v_scales, v_scales);
  }
  const F32x8 scale = splat(a.scale);
  for (int h = 0; h < t.heads; ++h) {
    float* s = t.scores[h];
    for (int j = 0; j < kChunk; j += 8) {
      F32x8 x = load8(s + j);
      if constexpr (Scaled) x = x * load8(k_scales + j);
      x = x * scale;
      if (a.softcap > 0) x = splat(a.softcap) * tanh8(x / splat(a.softcap));
      store8(s + j, x);
    }
    hide_invisible(s, chunk, runs);
    F32x8 most = load8(s);
    for (int j = 8; j < kChunk; j += 8) most = max8(most, load8(s + j));
    const float before = t.largest[h];
    const float top = max_of(most);
    const float now = top <= before ? before : top;
    if (now != before) {
      const float shrink = exp1(before - now);
      t.total[h] *= shrink;
      for (int d = 0; d < head_dim; d += 8) store8(o + h * head_dim + d, load8(o + h * head_dim + d) * splat(shrink));
    }
    F32x8 sum = zero8();
    for (int j = 0; j < kChunk; j += 8) {
      F32x8 p = exp8(load8(s + j) - splat(now));
      sum = sum + p;
      if constexpr (Scaled) p = p * load8(v_scales + j);
      store8(s + j, p);
    }
    t.largest[h] = now;
    t.total[h] += sum8(sum);
  }
}

// The whole step. E: how elements are loaded; Scaled: the runs have scales. `q` are the tile's query heads, o[heads][head_dim] the
// accumulators of the slice. REQUIRES: runs.count > 0.
template <class E, bool Scaled>
inline void attend_chunk(const AttentionArgs& a, const float* const* q, const ChunkRuns& runs, std::int64_t chunk, HeadTile& t, float* o) {
  const int head_dim = a.kv.head_dim;
  for (int i = 0; i < runs.count; ++i) {
    const KeyRun& run = runs.runs[i];
    const std::int64_t from = run.first - chunk;
    each_tile(t.heads, [&](auto tile, int h) {
      constexpr int R = decltype(tile)::value;
      score_run<E, R, 8 / R>(q + h, run, head_dim, t.scores[h] + from);
    });
  }
  weigh<Scaled>(t, a, runs, chunk, head_dim, o);
  each_tile(t.heads, [&](auto tile, int h) {
    constexpr int R = decltype(tile)::value;
    value_rows<E, R, 8 / R>(t.scores[h], runs, chunk, head_dim, o + h * head_dim);
  });
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
