// kv_append and attention over f32 pages.
//
// Attention, serial: a task is one row and up to kHeadTile query heads of one KV head, which share every load of K and V. Keys
// are walked in chunks of kChunk by absolute position, whatever the page size: scores of the chunk, one update of (m, l), then
// the chunk's values. So the bits of a row depend on its query and its visible keys alone; not on pages, on the other rows, or
// on how the prompt was cut into steps.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// Keys of one online-softmax update. 64 scores are 8 vectors, so exp runs without tails; the update of the accumulator costs
// head_dim operations against 2 * 64 * head_dim for the chunk.
inline constexpr int kChunk = 64;
// Query heads of a task: two register tiles for the groups of 8 of gpt-oss. Larger groups walk the keys again.
inline constexpr int kHeadTile = 8;

// The page that holds `position` of a sequence, or -1. Every reason for -1 is counted.
inline std::int64_t page_of(const KvView& kv, std::int64_t sequence, std::int64_t position, std::int64_t row, device::Worker& w) {
  std::int64_t logical = position / kv.page_rows;
  if (kv.window == 0) {
    // A full-attention table does not wrap: a position behind its end is a reservation that is too short.
    if (w.index_in(logical, kv.table_pages, row) != logical) return -1;
  } else {
    logical %= kv.table_pages;
  }
  const std::int64_t page = kv.table[sequence * kv.table_pages + logical];
  return w.index_in(page, kv.pages, row) == page ? page : -1;
}

// Counts a sequence or position out of bounds; false then.
inline bool valid_row(const KvView& kv, std::int64_t sequence, std::int64_t position, std::int64_t row, device::Worker& w) {
  return w.index_in(sequence, kv.sequences, row) == sequence &&
         w.index_in(position, std::int64_t{1} << 31, row) == position;
}

void kv_append(const KvAppendArgs& a, device::Worker& w) {
  const auto [lo, hi] = w.share(a.rows);
  const auto bytes = static_cast<std::size_t>(a.kv.head_dim) * 4;
  for (std::int64_t r = lo; r < hi; ++r) {
    const std::int64_t sequence = a.sequences[r];
    const std::int64_t position = a.positions[r];
    if (sequence == -1 || !valid_row(a.kv, sequence, position, r, w)) continue;
    const std::int64_t page = page_of(a.kv, sequence, position, r, w);
    if (page < 0) continue;
    for (int h = 0; h < a.kv.kv_heads; ++h) {
      const std::int64_t cell = kv_cell(a.kv, page, h, static_cast<int>(position % a.kv.page_rows)) * 4;
      const std::int64_t from = (r * a.kv.kv_heads + h) * a.kv.head_dim;
      std::memcpy(a.kv.k.get() + cell, a.k.get() + from, bytes);
      std::memcpy(a.kv.v.get() + cell, a.v.get() + from, bytes);
    }
  }
}

// o[r][d] += sum over keys j in order of p[r][j] * v[j][d], for R heads and D vectors of d.
template <int R, int D>
inline void add_values(const float* p, const float* v, int keys, int head_dim, float* o) {
  F32x8 acc[R][D];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int d = 0; d < D; ++d) acc[r][d] = load8(o + r * head_dim + d * 8);
  }
  for (int j = 0; j < keys; ++j) {
    F32x8 values[D];
#pragma GCC unroll 8
    for (int d = 0; d < D; ++d) values[d] = load8(v + std::int64_t{j} * head_dim + d * 8);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const F32x8 weight = splat(p[r * kChunk + j]);
#pragma GCC unroll 8
      for (int d = 0; d < D; ++d) acc[r][d] = mul_add(weight, values[d], acc[r][d]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int d = 0; d < D; ++d) store8(o + r * head_dim + d * 8, acc[r][d]);
  }
}

template <int R>
inline void add_values_rows(const float* p, const float* v, int keys, int head_dim, float* o) {
  int d = 0;
  for (; d + 16 <= head_dim; d += 16) add_values<R, 2>(p, v + d, keys, head_dim, o + d);
  if (d < head_dim) add_values<R, 1>(p, v + d, keys, head_dim, o + d);
}

// The running softmax of one task.
struct HeadTile {
  int heads;
  float largest[kHeadTile];  // m
  float total[kHeadTile];    // l
  alignas(32) float scores[kHeadTile][kChunk];
};

// Scores to probabilities against the new maximum; rescales what was gathered before. Invisible places score -infinity and
// weigh 0. A score that is not finite makes the head's total NaN, and so its output.
inline void update_softmax(HeadTile& t, int head_dim, float* o) {
  for (int h = 0; h < t.heads; ++h) {
    float* s = t.scores[h];
    F32x8 chunk = load8(s);
    for (int j = 8; j < kChunk; j += 8) chunk = max8(chunk, load8(s + j));
    const float before = t.largest[h];
    const float top = max_of(chunk);
    const float now = top <= before ? before : top;
    if (now != before) {
      const F32x8 shrink = splat(exp1(before - now));
      t.total[h] *= exp1(before - now);
      for (int d = 0; d < head_dim; d += 8) store8(o + h * head_dim + d, load8(o + h * head_dim + d) * shrink);
    }
    F32x8 sum = zero8();
    for (int j = 0; j < kChunk; j += 8) {
      const F32x8 p = exp8(load8(s + j) - splat(now));
      store8(s + j, p);
      sum = sum + p;
    }
    t.largest[h] = now;
    t.total[h] += sum8(sum);
  }
}

// A run of keys that lies in one page: [first, first + count), the page's K and V rows of one head.
struct KeyRun {
  std::int64_t first;
  int count;
  const float* k;
  const float* v;
};

// Scores -infinity wherever the chunk has no visible key.
inline void hide_invisible(float* scores, std::int64_t chunk, const KeyRun* runs, int run_count) {
  int next = 0;
  for (int i = 0; i < run_count; ++i) {
    const int from = static_cast<int>(runs[i].first - chunk);
    while (next < from) scores[next++] = -std::numeric_limits<float>::infinity();
    next = from + runs[i].count;
  }
  while (next < kChunk) scores[next++] = -std::numeric_limits<float>::infinity();
}

inline void attend(const AttentionArgs& a, std::int64_t row, int kv_head, int first_head, int heads, device::Worker& w) {
  const KvView& kv = a.kv;
  const int head_dim = kv.head_dim;
  const std::int64_t at = (row * a.q_heads + first_head) * head_dim;
  const float* q = a.q.get() + at;
  float* o = a.out.get() + at;
  std::memset(o, 0, static_cast<std::size_t>(heads) * head_dim * 4);

  const std::int64_t sequence = a.sequences[row];
  const std::int64_t position = a.positions[row];
  if (!valid_row(kv, sequence, position, row, w)) return;
  const std::int64_t first = kv_first_visible(kv, position);
  // The table must hold every page that this row sees: a full one does not wrap, and in a ring that is too short two of them
  // would be one.
  const std::int64_t last_page = position / kv.page_rows - (kv.window > 0 ? first / kv.page_rows : 0);
  if (w.index_in(last_page, kv.table_pages, row) != last_page) return;

  HeadTile t;
  t.heads = heads;
  for (int h = 0; h < heads; ++h) {
    // The sink is a key without a value: it starts the sum.
    t.largest[h] = a.sinks ? a.sinks[first_head + h] : -std::numeric_limits<float>::infinity();
    t.total[h] = a.sinks ? 1.0F : 0.0F;
  }
  const float* q_rows[kHeadTile];
  for (int h = 0; h < heads; ++h) q_rows[h] = q + h * head_dim;

  const auto* k_pool = reinterpret_cast<const float*>(kv.k.get());
  const auto* v_pool = reinterpret_cast<const float*>(kv.v.get());
  for (std::int64_t chunk = first / kChunk * kChunk; chunk <= position; chunk += kChunk) {
    const std::int64_t lo = first > chunk ? first : chunk;
    const std::int64_t hi = position + 1 < chunk + kChunk ? position + 1 : chunk + kChunk;
    KeyRun runs[kChunk];
    int run_count = 0;
    for (std::int64_t key = lo; key < hi;) {
      const std::int64_t page_end = (key / kv.page_rows + 1) * kv.page_rows;
      const std::int64_t end = page_end < hi ? page_end : hi;
      const std::int64_t page = page_of(kv, sequence, key, row, w);
      if (page >= 0) {
        const std::int64_t cell = kv_cell(kv, page, kv_head, static_cast<int>(key % kv.page_rows));
        runs[run_count++] = {key, static_cast<int>(end - key), k_pool + cell, v_pool + cell};
      }
      key = end;
    }
    if (run_count == 0) continue;
    std::memset(t.scores, 0, sizeof t.scores);
    for (int i = 0; i < run_count; ++i) {
      const int from = static_cast<int>(runs[i].first - chunk);
      for (int h = 0; h < heads; h += kTileRows) {
        dot_panel(q_rows + h, heads - h < kTileRows ? heads - h : kTileRows, runs[i].k, head_dim, runs[i].count, head_dim,
                  t.scores[h] + from, kChunk);
      }
    }
    const F32x8 scale = splat(a.scale);
    for (int h = 0; h < heads; ++h) {
      for (int j = 0; j < kChunk; j += 8) {
        F32x8 s = load8(t.scores[h] + j) * scale;
        if (a.softcap > 0) s = splat(a.softcap) * tanh8(s / splat(a.softcap));
        store8(t.scores[h] + j, s);
      }
      hide_invisible(t.scores[h], chunk, runs, run_count);
    }
    update_softmax(t, head_dim, o);
    for (int i = 0; i < run_count; ++i) {
      const int from = static_cast<int>(runs[i].first - chunk);
      for (int h = 0; h < heads;) {
        float* o_head = o + h * head_dim;
        const float* p = t.scores[h] + from;
        if (heads - h >= 4) {
          add_values_rows<4>(p, runs[i].v, runs[i].count, head_dim, o_head);
          h += 4;
        } else {
          add_values_rows<1>(p, runs[i].v, runs[i].count, head_dim, o_head);
          h += 1;
        }
      }
    }
  }
  for (int h = 0; h < heads; ++h) {
    if (t.total[h] == 0) continue;  // no key and no sink: the output is 0
    const F32x8 inverse = splat(1.0F / t.total[h]);
    for (int d = 0; d < head_dim; d += 8) store8(o + h * head_dim + d, load8(o + h * head_dim + d) * inverse);
  }
}

void attention(const AttentionArgs& a, device::Worker& w) {
  const int group = a.q_heads / a.kv.kv_heads;
  const int tiles = (group + kHeadTile - 1) / kHeadTile;
  const std::int64_t tasks = std::int64_t{a.rows} * a.kv.kv_heads * tiles;
  for (std::int64_t task = w.claim(); task < tasks; task = w.claim()) {
    const int tile = static_cast<int>(task % tiles);
    const int kv_head = static_cast<int>(task / tiles % a.kv.kv_heads);
    const std::int64_t row = task / tiles / a.kv.kv_heads;
    const int heads = group - tile * kHeadTile < kHeadTile ? group - tile * kHeadTile : kHeadTile;
    attend(a, row, kv_head, kv_head * group + tile * kHeadTile, heads, w);
  }
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
