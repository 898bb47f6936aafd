// One chunk of keys against a few query heads of one row: the inner step that every attention kernel shares, so that their bits
// agree. Scores and values by the set's chunk_heads.h; between them one update of (m, l).
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// The running softmax of a slice, for the heads of a tile.
struct HeadTile {
  int heads;
  float largest[kHeadTile];  // m
  float total[kHeadTile];    // l
  alignas(64) float scores[kHeadTile][kChunk];
};

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

// Raw scores of one head to what exp takes, and the largest of them. Invisible places score -infinity.
template <bool Scaled>
inline float finish_scores(float* s, const float* k_scales, const AttentionArgs& a, const ChunkRuns& runs, std::int64_t chunk) {
  const Scores scale = every(Scores{}, a.scale);
  Scores most = every(Scores{}, -std::numeric_limits<float>::infinity());
  for (int j = 0; j < kChunk; j += kScoreLanes) {
    Scores x = load_scores(s + j);
    if constexpr (Scaled) x = x * load_scores(k_scales + j);
    x = x * scale;
    store_scores(s + j, x);
    most = max8(most, x);
  }
  if (a.softcap <= 0 && runs.keys == kChunk) return largest_score(most);
  for (int j = 0; a.softcap > 0 && j < kChunk; j += 8) store8(s + j, splat(a.softcap) * tanh8(load8(s + j) / splat(a.softcap)));
  hide_invisible(s, chunk, runs);
  most = load_scores(s);
  for (int j = kScoreLanes; j < kChunk; j += kScoreLanes) most = max8(most, load_scores(s + j));
  return largest_score(most);
}

// Raw scores to probabilities against the new maximum; rescales what was gathered before. Invisible places weigh 0. A score that is not finite
// makes the head's total NaN, and so its output.
template <bool Scaled>
inline void weigh(HeadTile& t, const AttentionArgs& a, const ChunkRuns& runs, std::int64_t chunk, int head_dim, float* o) {
  alignas(64) float k_scales[kChunk];
  alignas(64) float v_scales[kChunk];
  if constexpr (Scaled) {
    spread_scales(runs, chunk, &KeyRun::k_scales, k_scales);
    spread_scales(runs, chunk, &KeyRun::v_scales, v_scales);
  }
  // Two passes over the heads: within one, no head waits for another.
  for (int h = 0; h < t.heads; ++h) {
    const float top = finish_scores<Scaled>(t.scores[h], k_scales, a, runs, chunk);
    const float before = t.largest[h];
    if (top <= before) continue;
    t.largest[h] = top;
    const float shrink = exp1(before - top);
    t.total[h] *= shrink;
    for (int d = 0; d < head_dim; d += 8) store8(o + h * head_dim + d, load8(o + h * head_dim + d) * splat(shrink));
  }
  for (int h = 0; h < t.heads; ++h) {
    float* s = t.scores[h];
    const Scores now = every(Scores{}, t.largest[h]);
    F32x8 sum = zero8();
#pragma GCC unroll 4
    for (int j = 0; j < kChunk; j += kScoreLanes) {
      Scores p = exp_lanes(load_scores(s + j) - now);
      sum = add_scores(sum, p);
      if constexpr (Scaled) p = p * load_scores(v_scales + j);
      store_scores(s + j, p);
    }
    t.total[h] += sum8(sum);
  }
}

// The whole step over keys in form F; Scaled: the runs have scales. `q` are the tile's query heads, o[heads][head_dim] the accumulators of
// the slice. REQUIRES: runs.count > 0.
template <KvFormat F, bool Scaled>
inline void attend_chunk(const AttentionArgs& a, const float* const* q, const ChunkRuns& runs, std::int64_t chunk, HeadTile& t, float* o) {
  const int head_dim = a.kv.head_dim;
  for (int i = 0; i < runs.count; ++i) score_heads<F>(q, t.heads, runs.runs[i], head_dim, t.scores[0] + (runs.runs[i].first - chunk));
  weigh<Scaled>(t, a, runs, chunk, head_dim, o);
  value_heads<F>(t.scores[0], t.heads, runs, chunk, head_dim, o);
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
