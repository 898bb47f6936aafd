// The two products of a chunk for up to kHeadTile query heads, by vectors of eight. The first heads to walk a run ask for the keys ahead
// while they compute, a line or two at each key: asked for all at once, they would be waited for.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// What weigh() walks scores by.
using Scores = F32x8;
inline constexpr int kScoreLanes = 8;
inline Scores load_scores(const float* from) { return load8(from); }
inline void store_scores(float* to, Scores x) { store8(to, x); }
inline F32x8 add_scores(F32x8 sum, Scores x) { return sum + x; }
inline float largest_score(Scores x) { return max_of(x); }

template <class E, int R, int N>
inline void score_keys(const float* const* q, const KeyRun& run, int head_dim, bool ask, float* scores) {
  const std::int64_t stride = std::int64_t{head_dim} * E::kBytes;
  const std::byte* ahead = ask ? run.k_ahead : nullptr;
  int j = 0;
  for (; j + N <= run.count; j += N) {
    if (ahead != nullptr) ask_for_keys(ahead + j * stride, N * stride, run.near);
    score_tile<E, R, N>(q, run.k + j * stride, head_dim, scores + j);
  }
  for (; j < run.count; ++j) {
    if (ahead != nullptr) ask_for_keys(ahead + j * stride, stride, run.near);
    score_tile<E, R, 1>(q, run.k + j * stride, head_dim, scores + j);
  }
}

// scores[h * kChunk + j] = q[h] . (key j of the run)
template <KvFormat F>
inline void score_heads(const float* const* q, int heads, const KeyRun& run, int head_dim, float* scores) {
  each_tile(heads, [&](auto tile, int h) {
    constexpr int R = decltype(tile)::value;
    score_keys<KvForm<F>, R, 8 / R>(q + h, run, head_dim, h == 0, scores + h * kChunk);
  });
}

template <KvFormat F, int R, int D>
inline void value_rows(const float* p, const float* keep, const ChunkRuns& runs, std::int64_t chunk, int head_dim, bool ask, float* o) {
  int d = 0;
  for (; d + D * 8 <= head_dim; d += D * 8) value_tile<Values8, F, R, D>(p, keep, runs, chunk, d, head_dim, ask, o);
  for (; d < head_dim; d += 8) value_tile<Values8, F, R, 1>(p, keep, runs, chunk, d, head_dim, ask, o);
}

// o[h][d] = keep[h] * o[h][d] + p[h * kChunk + j] * (value d of key j), for the keys of the chunk in order.
template <KvFormat F>
inline void value_heads(const float* p, const float* keep, int heads, const ChunkRuns& runs, std::int64_t chunk, int head_dim, float* o) {
  each_tile(heads, [&](auto tile, int h) {
    constexpr int R = decltype(tile)::value;
    value_rows<F, R, 8 / R>(p + h * kChunk, keep + h, runs, chunk, head_dim, h == 0, o + h * head_dim);
  });
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
