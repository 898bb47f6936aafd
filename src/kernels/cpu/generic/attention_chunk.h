// One chunk of keys against a few query heads of one row: the inner step that every attention kernel shares, so that their bits
// agree. Scores and values by the set's chunk_heads.h, over q8 by its chunk_codes.h; between them one update of (m, l).
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
inline float finish_scores(float* s, const float* k_scales, float q_scale, const AttentionArgs& a, const ChunkRuns& runs, std::int64_t chunk) {
  const Scores scale = every(Scores{}, a.scale * q_scale);
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

// What weigh leaves for the sums of values, head by head.
struct Weighed {
  alignas(32) float keep[kHeadTile];  // by which what was gathered before shrinks
  alignas(32) float inverse[kHeadTile];  // Scaled: code = weight * inverse, rounded
  alignas(32) float scale[kHeadTile];    // weight = code * scale
};

// Raw scores to probabilities against the new maximum, times the scales of values where there are some. Invisible places weigh 0. A score that is
// not finite makes the head's total NaN, and so its output. Scaled: the runs have scales, and so has each head's query.
template <bool Scaled>
[[gnu::always_inline]] inline void weigh(HeadTile& t, const float* q_scales, const AttentionArgs& a, const ChunkRuns& runs, std::int64_t chunk, Weighed& out) {
  alignas(64) float k_scales[kChunk];
  alignas(64) float v_scales[kChunk];
  if constexpr (Scaled) {
    spread_scales(runs, chunk, &KeyRun::k_scales, k_scales);
    spread_scales(runs, chunk, &KeyRun::v_scales, v_scales);
  }
  // Two passes over the heads: within one, no head waits for another. (A branch that is foreseen lets the second begin before the first is done.)
  for (int h = 0; h < t.heads; ++h) {
    const float top = finish_scores<Scaled>(t.scores[h], k_scales, Scaled ? q_scales[h] : 1.0F, a, runs, chunk);
    const float before = t.largest[h];
    out.keep[h] = 1;
    if (top <= before) continue;
    t.largest[h] = top;
    out.keep[h] = exp1(before - top);
    t.total[h] *= out.keep[h];
  }
  alignas(32) float most[kHeadTile] = {};
  for (int h = 0; h < t.heads; ++h) {
    float* s = t.scores[h];
    const Scores largest = every(Scores{}, t.largest[h]);
    F32x8 sum = zero8();
    Scores heaviest = every(Scores{}, 0.0F);
#pragma GCC unroll 4
    for (int j = 0; j < kChunk; j += kScoreLanes) {
      Scores p = exp_not_above_one(load_scores(s + j) - largest);
      sum = add_scores(sum, p);
      if constexpr (Scaled) {
        p = p * load_scores(v_scales + j);
        heaviest = max8(p, heaviest);
      }
      store_scores(s + j, p);
    }
    t.total[h] += sum8(sum);
    if constexpr (Scaled) most[h] = largest_score(heaviest);
  }
  if constexpr (Scaled) {
    F32x8 check = zero8();  // stays 0 while no scale is NaN
    for (int j = 0; j < kChunk; j += 8) check = mul_add(load8(v_scales + j), zero8(), check);
    const CodeScales scales = code_scales(load8(most), kWeightCodes);
    store8(out.inverse, scales.inverse);
    store8(out.scale, scales.scale + splat(sum8(check)));
  }
}

// Up to kHeadTile query heads of one row, as the products take them.
template <KvFormat F>
struct Queries {
  const float* heads[kHeadTile];
};
template <>
struct Queries<KvFormat::q8> {
  QueryCodes heads[kHeadTile];
};
template <KvFormat F>
inline void take_queries(const float* q, int count, int head_dim, Queries<F>& out) {
  for (int h = 0; h < count; ++h) {
    if constexpr (F == KvFormat::q8) {
      encode_query(q + h * head_dim, head_dim, out.heads[h]);
    } else {
      out.heads[h] = q + h * head_dim;
    }
  }
}

// The whole step over keys in form F, all but q8. o[heads][head_dim]: the accumulators of the slice. REQUIRES: runs.count > 0.
template <KvFormat F>
inline void attend_chunk(const AttentionArgs& a, const Queries<F>& q, const ChunkRuns& runs, std::int64_t chunk, HeadTile& t, float* o) {
  const int head_dim = a.kv.head_dim;
  for (int i = 0; i < runs.count; ++i) score_heads<F>(q.heads, t.heads, runs.runs[i], head_dim, t.scores[0] + (runs.runs[i].first - chunk));
  Weighed weighed;
  weigh<false>(t, nullptr, a, runs, chunk, weighed);
  value_heads<F>(t.scores[0], weighed.keep, t.heads, runs, chunk, head_dim, o);
}

// Likewise over q8. `found`: the chunk's groups, to be laid out in `codes` on the way, or null where they were before.
inline void attend_codes(const AttentionArgs& a, const Queries<KvFormat::q8>& q, const ChunkRuns& runs, std::int64_t chunk, const KeyGroup* found,
                         ChunkCodes& codes, HeadTile& t, float* o) {
  const int head_dim = a.kv.head_dim;
  const Groups groups = groups_of(runs, chunk);
  each_tile(t.heads, [&](auto tile, int h) {
    constexpr int R = decltype(tile)::value;
    score_codes<R>(q.heads + h, h == 0 ? found : nullptr, codes, groups, head_dim, t.scores[h]);
  });
  float scales[kHeadTile];
  for (int h = 0; h < t.heads; ++h) scales[h] = q.heads[h].scale;
  Weighed weighed;
  weigh<true>(t, scales, a, runs, chunk, weighed);
  WeightCodes weights[kHeadTile];
  for (int h = 0; h < t.heads; ++h) encode_weights(t.scores[h], weighed.inverse[h], weighed.scale[h], weights[h]);
  each_tile(t.heads, [&](auto tile, int h) {
    constexpr int R = decltype(tile)::value;
    value_codes<R>(weights + h, weighed.keep + h, h == 0 ? found : nullptr, codes, groups, head_dim, o + h * head_dim);
  });
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
