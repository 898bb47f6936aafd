// Attention over pages of any form, by slices (api/attention.h): serial, grouped and seqpar. They differ in how work is shared out;
// the sums, and so the bits, are the same.
//
//   serial    a task is one row and one query head. The executable specification, and what runs where nothing was measured.
//   grouped   a task is one row and up to kHeadTile query heads of one KV head, which share every load (and conversion) of K and V.
//   seqpar    grouped, with the slices of a row shared out to `parts` tasks; the last tasks merge.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// Some query heads of one KV head.
struct Heads {
  int kv_head;
  int first;
  int count;
};

// The (M, L, O) of a row's slices merged so far; O lies in `out`, [heads][head_dim].
struct Merged {
  float largest[kHeadTile];
  float total[kHeadTile];

  // The sink is a key without a value: it starts the sum.
  void start(const AttentionArgs& a, const Heads& heads, float* out) {
    for (int h = 0; h < heads.count; ++h) {
      largest[h] = a.sinks ? a.sinks[heads.first + h] : -std::numeric_limits<float>::infinity();
      total[h] = a.sinks ? 1.0F : 0.0F;
    }
    std::memset(out, 0, static_cast<std::size_t>(heads.count) * a.kv.head_dim * 4);
  }

  // Adds one slice's (m, l, o) of head h.
  void add(int h, float m, float l, const float* o, int head_dim, float* out) {
    if (m == -std::numeric_limits<float>::infinity() && l == 0) return;  // no key: every page was missing
    const float now = m <= largest[h] ? largest[h] : m;
    const float keep = exp1(largest[h] - now);
    const float take = exp1(m - now);
    total[h] = total[h] * keep + l * take;
    largest[h] = now;
    const F32x8 keep8 = splat(keep);
    const F32x8 take8 = splat(take);
    for (int d = 0; d < head_dim; d += 8) store8(out + d, mul_add(load8(o + d), take8, load8(out + d) * keep8));
  }

  void finish(int heads, int head_dim, float* out) const {
    for (int h = 0; h < heads; ++h) {
      if (total[h] == 0) continue;  // no key and no sink: the output is 0
      const F32x8 inverse = splat(1.0F / total[h]);
      for (int d = 0; d < head_dim; d += 8) store8(out + h * head_dim + d, load8(out + h * head_dim + d) * inverse);
    }
  }
};

// What one row sees.
struct RowView {
  std::int64_t row;
  std::int64_t sequence;
  std::int64_t position;
  std::int64_t first;  // first visible key

  std::int64_t first_slice() const { return first / kAttentionSlice; }
  std::int64_t slices() const { return attention_slices(first, position); }
};

// False, and counted, when the row is out of bounds or its table too short: the output is 0 then.
inline bool view_row(const AttentionArgs& a, std::int64_t row, device::Worker& w, RowView& out) {
  const KvView& kv = a.kv;
  out = {row, a.sequences[row], a.positions[row], 0};
  if (!valid_row(kv, out.sequence, out.position, row, w)) return false;
  out.first = kv_first_visible(kv, out.position);
  // The table must hold every page that this row sees: a full one does not wrap, and in a ring that is too short two of them
  // would be one.
  const std::int64_t last_page = out.position / kv.page_rows - (kv.window > 0 ? out.first / kv.page_rows : 0);
  return w.index_in(last_page, kv.table_pages, row) == last_page;
}

inline float* out_of(const AttentionArgs& a, std::int64_t row, const Heads& heads) {
  return a.out.get() + (row * a.q_heads + heads.first) * a.kv.head_dim;
}

// Keys are asked for this many before they are used: pages lie anywhere and runs are a page long, too short for the processor to see where
// they lead.
inline constexpr std::int64_t kAskAhead = 2 * kChunk;

// Where keys of a head lie in a page. -1 where there is no such page. Silent: what is wrong with a page is counted when the page is used.
struct PagePlace {
  std::int64_t row;
  std::int64_t scale;
};
inline PagePlace place_of(const KvView& kv, std::int64_t sequence, int kv_head, std::int64_t key) {
  const std::int64_t logical = kv.window == 0 ? key / kv.page_rows : key / kv.page_rows % kv.table_pages;
  const std::int64_t page = logical < kv.table_pages ? kv.table[sequence * kv.table_pages + logical] : -1;
  if (page < 0 || page >= kv.pages) return {-1, -1};
  const std::int64_t block = kv_block(kv, page, kv_head);
  const std::int64_t in_page = key & (kv.page_rows - 1);
  return {block + kv_row_in_block(kv, in_page), block + kv_scales_in_block(kv) + in_page * 4};
}

template <KvFormat F>
[[gnu::always_inline]] inline void ask_for_scales(const KvView& kv, const PagePlace& place, std::int64_t keys) {
  if constexpr (F == KvFormat::q8) {
    ask_for_lines(kv.k.get() + place.scale, keys * 4);
    ask_for_lines(kv.v.get() + place.scale, keys * 4);
  }
}

// Asks for the first keys that a row or a part of one sees, [lo, lo + kAskAhead).
template <KvFormat F>
[[gnu::always_inline]] inline void ask_for_first(const KvView& kv, const RowView& row, int kv_head, std::int64_t lo) {
  const std::int64_t row_bytes = kv.head_dim * kv_element_bytes(F);
  const std::int64_t hi = lo + kAskAhead < row.position + 1 ? lo + kAskAhead : row.position + 1;
  while (lo < hi) {
    const std::int64_t left = kv.page_rows - (lo & (kv.page_rows - 1));
    const std::int64_t end = lo + left < hi ? lo + left : hi;
    if (const PagePlace place = place_of(kv, row.sequence, kv_head, lo); place.row >= 0) {
      ask_for_lines(kv.k.get() + place.row, (end - lo) * row_bytes);
      ask_for_lines(kv.v.get() + place.row, (end - lo) * row_bytes);
      ask_for_scales<F>(kv, place, end - lo);
    }
    lo = end;
  }
}

// Says for each run of a chunk where the keys kAskAhead later lie, if the row sees any: they are in one page too, since a page has a power
// of two of keys. The products ask for them key by key.
template <KvFormat F>
[[gnu::always_inline]] inline void look_ahead(const KvView& kv, std::int64_t sequence, std::int64_t position, int kv_head, ChunkRuns& runs) {
  for (int i = 0; i < runs.count; ++i) {
    KeyRun& run = runs.runs[i];
    const std::int64_t key = run.first + kAskAhead;
    if (key > position) continue;
    const PagePlace place = place_of(kv, sequence, kv_head, key);
    if (place.row < 0) continue;
    run.k_ahead = kv.k.get() + place.row;
    run.v_ahead = kv.v.get() + place.row;
    ask_for_scales<F>(kv, place, run.count);
  }
}

// One slice of one row: t.largest, t.total and o[heads][head_dim] afterwards.
template <KvFormat F>
inline void attend_slice(const AttentionArgs& a, const RowView& row, const Heads& heads, std::int64_t slice, device::Worker& w, HeadTile& t,
                         float* o) {
  const KvView& kv = a.kv;
  const float* q[kHeadTile];
  for (int h = 0; h < heads.count; ++h) {
    q[h] = a.q.get() + (row.row * a.q_heads + heads.first + h) * kv.head_dim;
    t.largest[h] = -std::numeric_limits<float>::infinity();
    t.total[h] = 0;
  }
  t.heads = heads.count;
  std::memset(o, 0, static_cast<std::size_t>(heads.count) * kv.head_dim * 4);
  const std::int64_t begin = slice * kAttentionSlice;
  const std::int64_t lo = row.first > begin ? row.first : begin;
  const std::int64_t hi = row.position + 1 < begin + kAttentionSlice ? row.position + 1 : begin + kAttentionSlice;
  ChunkRuns runs;
  for (std::int64_t chunk = lo / kChunk * kChunk; chunk < hi; chunk += kChunk) {
    find_runs(kv, row.sequence, heads.kv_head, lo > chunk ? lo : chunk, hi < chunk + kChunk ? hi : chunk + kChunk, row.row, w, runs);
    if (runs.count == 0) continue;
    look_ahead<F>(kv, row.sequence, row.position, heads.kv_head, runs);  // into the next slice too
    attend_chunk<F, F == KvFormat::q8>(a, q, runs, chunk, t, o);
  }
}

template <KvFormat F>
inline void attend(const AttentionArgs& a, const RowView& row, const Heads& heads, device::Worker& w) {
  float* out = out_of(a, row.row, heads);
  Merged merged;
  merged.start(a, heads, out);
  HeadTile t{};
  alignas(32) float o[kHeadTile * kMaxHeadDim];
  ask_for_first<F>(a.kv, row, heads.kv_head, row.first);
  for (std::int64_t slice = row.first_slice(); slice < row.first_slice() + row.slices(); ++slice) {
    attend_slice<F>(a, row, heads, slice, w, t, o);
    for (int h = 0; h < heads.count; ++h) {
      merged.add(h, t.largest[h], t.total[h], o + h * a.kv.head_dim, a.kv.head_dim, out + h * a.kv.head_dim);
    }
  }
  merged.finish(heads.count, a.kv.head_dim, out);
}

template <KvFormat F>
inline void attend_row(const AttentionArgs& a, std::int64_t row, const Heads& heads, device::Worker& w) {
  RowView view;
  if (view_row(a, row, w, view)) {
    attend<F>(a, view, heads, w);
  } else {
    std::memset(out_of(a, row, heads), 0, static_cast<std::size_t>(heads.count) * a.kv.head_dim * 4);
  }
}

// How the query heads of a row are cut into tasks.
struct HeadTasks {
  int group;
  int tiles;
  std::int64_t of_row;

  explicit HeadTasks(const AttentionArgs& a, int tile = kHeadTile)
      : group(a.q_heads / a.kv.kv_heads), tiles((group + tile - 1) / tile), of_row(std::int64_t{a.kv.kv_heads} * tiles), tile_(tile) {}
  Heads operator[](std::int64_t task) const {
    const int tile = static_cast<int>(task % tiles);
    const int kv_head = static_cast<int>(task / tiles);
    const int left = group - tile * tile_;
    return {kv_head, kv_head * group + tile * tile_, left < tile_ ? left : tile_};
  }

 private:
  int tile_;
};

template <KvFormat F>
void attention_serial(const AttentionArgs& a, device::Worker& w) {
  const HeadTasks heads(a, 1);
  const std::int64_t tasks = a.rows * heads.of_row;
  for (std::int64_t task = w.claim(); task < tasks; task = w.claim()) attend_row<F>(a, task / heads.of_row, heads[task % heads.of_row], w);
}

template <KvFormat F>
void attention_grouped(const AttentionArgs& a, device::Worker& w) {
  const HeadTasks heads(a);
  const std::int64_t tasks = a.rows * heads.of_row;
  for (std::int64_t task = w.claim(); task < tasks; task = w.claim()) attend_row<F>(a, task / heads.of_row, heads[task % heads.of_row], w);
}

// What a slice found for one query head, in AttentionArgs::partials: o, then m and l.
inline float* partial_of(const AttentionArgs& a, std::int64_t place, int head) {
  return a.partials.get() + (place * a.q_heads + head) * (a.kv.head_dim + 8);
}

// Can the slices of the row be kept apart? False also when the row is out of bounds; nothing is counted.
inline bool splits(const AttentionArgs& a, std::int64_t row, std::int64_t room) {
  const std::int64_t position = a.positions[row];
  return position >= 0 && attention_slices(kv_first_visible(a.kv, position), position) <= room;
}

// Slices of a row that there is room for.
inline std::int64_t partial_room(const AttentionArgs& a) { return a.partials && a.rows > 0 ? a.partial_slices / a.rows : 0; }

// The slices of one part of a row, to their places.
template <KvFormat F>
inline void attend_part(const AttentionArgs& a, const RowView& row, const Heads& heads, std::int64_t part, std::int64_t room, device::Worker& w) {
  const int head_dim = a.kv.head_dim;
  HeadTile t{};
  alignas(32) float o[kHeadTile * kMaxHeadDim];
  const std::int64_t n = row.slices();
  const std::int64_t first = n * part / a.parts;
  const std::int64_t last = n * (part + 1) / a.parts;
  const std::int64_t begin = (row.first_slice() + first) * kAttentionSlice;
  if (first < last) ask_for_first<F>(a.kv, row, heads.kv_head, begin > row.first ? begin : row.first);
  for (std::int64_t s = first; s < last; ++s) {
    attend_slice<F>(a, row, heads, row.first_slice() + s, w, t, o);
    for (int h = 0; h < heads.count; ++h) {
      float* to = partial_of(a, row.row * room + s, heads.first + h);
      std::memcpy(to, o + h * head_dim, static_cast<std::size_t>(head_dim) * 4);
      to[head_dim] = t.largest[h];
      to[head_dim + 1] = t.total[h];
    }
  }
}

inline void merge_parts(const AttentionArgs& a, const RowView& row, const Heads& heads, std::int64_t room) {
  const int head_dim = a.kv.head_dim;
  float* out = out_of(a, row.row, heads);
  Merged merged;
  merged.start(a, heads, out);
  for (std::int64_t s = 0; s < row.slices(); ++s) {
    for (int h = 0; h < heads.count; ++h) {
      const float* from = partial_of(a, row.row * room + s, heads.first + h);
      merged.add(h, from[head_dim], from[head_dim + 1], from, head_dim, out + h * head_dim);
    }
  }
  merged.finish(heads.count, head_dim, out);
}

template <KvFormat F>
void attention_seqpar(const AttentionArgs& a, device::Worker& w) {
  const HeadTasks heads(a);
  const std::int64_t room = partial_room(a);
  const std::int64_t merges = a.rows * heads.of_row;
  const std::int64_t tasks = merges * a.parts;
  RowView row;
  std::int64_t task = w.claim();
  for (; task < tasks; task = w.claim()) {
    const std::int64_t part = task % a.parts;
    const std::int64_t r = task / a.parts / heads.of_row;
    const Heads own = heads[task / a.parts % heads.of_row];
    if (!splits(a, r, room)) {
      if (part == 0) attend_row<F>(a, r, own, w);
    } else if (view_row(a, r, w, row)) {
      attend_part<F>(a, row, own, part, room, w);
    }
    w.finished();
  }
  for (; task < tasks + merges; task = w.claim()) {
    w.await(tasks);
    const std::int64_t r = (task - tasks) / heads.of_row;
    const Heads own = heads[(task - tasks) % heads.of_row];
    if (!splits(a, r, room)) continue;
    if (view_row(a, r, w, row)) {
      merge_parts(a, row, own, room);
    } else {
      std::memset(out_of(a, r, own), 0, static_cast<std::size_t>(own.count) * a.kv.head_dim * 4);
    }
  }
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
