// Attention over pages of any form, by slices and stretches (api/attention.h): what all its kernels share, and the two whose tasks are whole
// rows. They differ in how work is shared out; the sums, and so the bits, are the same. The others are in attention_parts.h and
// attention_tiled.h.
//
//   serial    a task is one row and one query head. The executable specification, and what runs where nothing was measured.
//   grouped   a task is one row and up to kHeadTile query heads of one KV head, which share every load (and conversion) of K and V.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// Some query heads of one KV head.
struct Heads {
  int kv_head;
  int first;
  int count;
};

// The (M, L, O) of what was merged so far: the slices of a stretch, or the stretches of a row. O lies elsewhere, [heads][head_dim].
struct Merged {
  float largest[kHeadTile];
  float total[kHeadTile];

  // The first slice of a stretch, whose o stays where it is: what adding it to (-inf, 0, 0) would give, but for the sign of a zero.
  void start(const HeadTile& slice) {
    std::memcpy(largest, slice.largest, sizeof largest);
    std::memcpy(total, slice.total, sizeof total);
  }

  // The sink is a key without a value: it starts the sum.
  void start(const AttentionArgs& a, const Heads& heads, float* out) {
    for (int h = 0; h < heads.count; ++h) {
      largest[h] = a.sinks ? a.sinks[heads.first + h] : -std::numeric_limits<float>::infinity();
      total[h] = a.sinks ? 1.0F : 0.0F;
    }
    std::memset(out, 0, static_cast<std::size_t>(heads.count) * a.kv.head_dim * 4);
  }

  // Adds the (m, l, o) of one slice or stretch, of head h.
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
  std::int64_t first_stretch() const { return first / kAttentionStretch; }
  std::int64_t stretches() const { return attention_stretches(first, position); }

  // The slices of a stretch that the row sees: [begin, end).
  struct Slices {
    std::int64_t begin, end;
  };
  Slices slices_of(std::int64_t stretch) const {
    constexpr std::int64_t kEach = kAttentionStretch / kAttentionSlice;
    const std::int64_t end = first_slice() + slices();
    return {stretch * kEach > first_slice() ? stretch * kEach : first_slice(), (stretch + 1) * kEach < end ? (stretch + 1) * kEach : end};
  }
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

template <KvFormat F>
inline void take_queries(const AttentionArgs& a, std::int64_t row, const Heads& heads, Queries<F>& out) {
  take_queries(a.q.get() + (row * a.q_heads + heads.first) * a.kv.head_dim, heads.count, a.kv.head_dim, out);
}

// Worker scratch of a row over q8.
struct RowCodes {
  ChunkCodes codes;
  GatheredRows gathered;
};
static_assert(sizeof(RowCodes) <= device::kWorkerScratchBytes);

// One slice of one row: t.largest, t.total and o[heads][head_dim] afterwards.
template <KvFormat F>
inline void attend_slice(const AttentionArgs& a, const RowView& row, const Heads& heads, const Queries<F>& q, std::int64_t slice, device::Worker& w,
                         HeadTile& t, float* o) {
  const KvView& kv = a.kv;
  for (int h = 0; h < heads.count; ++h) {
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
    if constexpr (F == KvFormat::q8) {
      auto& scratch = *w.scratch_as<RowCodes>();
      KeyGroup groups[kChunkGroups];
      for (int i = 0; i < runs.count; ++i) look_far<F>(kv, row.sequence, row.position, heads.kv_head, runs.runs[i]);
      find_groups(runs, chunk, kv.head_dim, true, scratch.gathered, groups);
      attend_codes(a, q, runs, chunk, groups, scratch.codes, t, o);
    } else {
      look_ahead<F>(kv, row.sequence, row.position, heads.kv_head, runs);  // into the next slice too
      attend_chunk<F>(a, q, runs, chunk, t, o);
    }
  }
}

// One stretch of one row.
struct Stretch {
  HeadTile t{};
  Merged merged;
  alignas(32) float o[kHeadTile * kMaxHeadDim];  // [heads][head_dim], without gaps
  alignas(32) float slice[kHeadTile * kMaxHeadDim];

  template <KvFormat F>
  void attend(const AttentionArgs& a, const RowView& row, const Heads& heads, const Queries<F>& q, std::int64_t stretch, device::Worker& w) {
    const int head_dim = a.kv.head_dim;
    const RowView::Slices slices = row.slices_of(stretch);
    attend_slice<F>(a, row, heads, q, slices.begin, w, t, o);
    merged.start(t);
    for (std::int64_t s = slices.begin + 1; s < slices.end; ++s) {
      attend_slice<F>(a, row, heads, q, s, w, t, slice);
      for (int h = 0; h < heads.count; ++h) merged.add(h, t.largest[h], t.total[h], slice + h * head_dim, head_dim, o + h * head_dim);
    }
  }
};

template <KvFormat F>
inline void attend(const AttentionArgs& a, const RowView& row, const Heads& heads, device::Worker& w) {
  const int head_dim = a.kv.head_dim;
  float* out = out_of(a, row.row, heads);
  Merged total;
  total.start(a, heads, out);
  Queries<F> q;
  take_queries(a, row.row, heads, q);
  Stretch s;
  ask_for_first<F>(a.kv, row.sequence, row.position, heads.kv_head, row.first);
  for (std::int64_t stretch = row.first_stretch(); stretch < row.first_stretch() + row.stretches(); ++stretch) {
    s.attend<F>(a, row, heads, q, stretch, w);
    for (int h = 0; h < heads.count; ++h) {
      total.add(h, s.merged.largest[h], s.merged.total[h], s.o + h * head_dim, head_dim, out + h * head_dim);
    }
  }
  total.finish(heads.count, head_dim, out);
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

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
