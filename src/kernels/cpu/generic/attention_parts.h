// Attention whose rows are shared out among workers: for few rows and many keys. Tasks leave what they found in AttentionArgs::partials; once
// all are done, a task for each row and head tile merges. The sums are those of attention.h.
//
//   seqpar       the slices of a row, in `parts` tasks of neighbouring ones. A place for each slice.
//   seqpar_long  every stretch of a row is a task. A place for each stretch: an eighth of the memory and of the merge at the end, which few
//                workers do while the others wait.
//
// Tasks of one part of a row follow each other, head by head. (Measured when the heads of a page lay side by side: workers that walked them at the
// same time read memory up to a tenth faster than workers far apart.)
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// What was found for one query head: o, then m and l.
inline float* partial_of(const AttentionArgs& a, std::int64_t place, int head) {
  return a.partials.get() + (place * a.q_heads + head) * (a.kv.head_dim + 8);
}

inline void store_partial(const AttentionArgs& a, std::int64_t place, const Heads& heads, const float* largest, const float* total, const float* o) {
  const int head_dim = a.kv.head_dim;
  for (int h = 0; h < heads.count; ++h) {
    float* to = partial_of(a, place, heads.first + h);
    std::memcpy(to, o + h * head_dim, static_cast<std::size_t>(head_dim) * 4);
    to[head_dim] = largest[h];
    to[head_dim + 1] = total[h];
  }
}

// Places for each row.
inline std::int64_t partial_room(const AttentionArgs& a) { return a.partials && a.rows > 0 ? a.partial_places / a.rows : 0; }

// Can what a row needs be kept apart? False also when its position is negative; other bounds are view_row's. Nothing is counted.
inline bool splits(const AttentionArgs& a, std::int64_t row, std::int64_t room, std::int64_t (*places)(std::int64_t first, std::int64_t position)) {
  const std::int64_t position = a.positions[row];
  return position >= 0 && places(kv_first_visible(a.kv, position), position) <= room;
}

// For each row and head tile of a launch, when its `tasks` tasks are finished: merge(view, heads) where the row was shared out; zeros where it is
// out of bounds. `claimed`: what claim() gave first that was not one of those tasks.
template <class Merge>
inline void merge_rows(const AttentionArgs& a, device::Worker& w, std::int64_t claimed, std::int64_t tasks,
                       std::int64_t (*places)(std::int64_t first, std::int64_t position), Merge&& merge) {
  const HeadTasks heads(a);
  const std::int64_t room = partial_room(a);
  RowView row;
  for (std::int64_t task = claimed; task < tasks + a.rows * heads.of_row; task = w.claim()) {
    w.await(tasks);
    const std::int64_t r = (task - tasks) / heads.of_row;
    const Heads own = heads[(task - tasks) % heads.of_row];
    if (!splits(a, r, room, places)) continue;  // was computed whole
    if (view_row(a, r, w, row)) {
      merge(row, own);
    } else {
      std::memset(out_of(a, r, own), 0, static_cast<std::size_t>(own.count) * a.kv.head_dim * 4);
    }
  }
}

// The slices of one part of a row, to their places.
template <KvFormat F>
inline void attend_part(const AttentionArgs& a, const RowView& row, const Heads& heads, std::int64_t part, std::int64_t room, device::Worker& w) {
  HeadTile t{};
  alignas(32) float o[kHeadTile * kMaxHeadDim];
  Queries<F> q;
  take_queries(a, row.row, heads, q);
  const std::int64_t n = row.slices();
  const std::int64_t first = n * part / a.parts;
  const std::int64_t last = n * (part + 1) / a.parts;
  const std::int64_t begin = (row.first_slice() + first) * kAttentionSlice;
  if (first < last) ask_for_first<F>(a.kv, row.sequence, row.position, heads.kv_head, begin > row.first ? begin : row.first);
  for (std::int64_t s = first; s < last; ++s) {
    attend_slice<F>(a, row, heads, q, row.first_slice() + s, w, t, o);
    store_partial(a, row.row * room + s, heads, t.largest, t.total, o);
  }
}

inline void merge_slices(const AttentionArgs& a, const RowView& row, const Heads& heads, std::int64_t room) {
  const int head_dim = a.kv.head_dim;
  float* out = out_of(a, row.row, heads);
  Merged total;
  total.start(a, heads, out);
  Merged merged;
  for (std::int64_t stretch = row.first_stretch(); stretch < row.first_stretch() + row.stretches(); ++stretch) {
    const RowView::Slices slices = row.slices_of(stretch);
    for (int h = 0; h < heads.count; ++h) {
      // The stretch gathers where its first slice lies.
      float* o = partial_of(a, row.row * room + slices.begin - row.first_slice(), heads.first + h);
      merged.largest[h] = o[head_dim];
      merged.total[h] = o[head_dim + 1];
      for (std::int64_t s = slices.begin + 1; s < slices.end; ++s) {
        const float* from = partial_of(a, row.row * room + s - row.first_slice(), heads.first + h);
        merged.add(h, from[head_dim], from[head_dim + 1], from, head_dim, o);
      }
      total.add(h, merged.largest[h], merged.total[h], o, head_dim, out + h * head_dim);
    }
  }
  total.finish(heads.count, head_dim, out);
}

template <KvFormat F>
void attention_seqpar(const AttentionArgs& a, device::Worker& w) {
  const HeadTasks heads(a);
  const std::int64_t room = partial_room(a);
  const std::int64_t tasks = a.rows * heads.of_row * a.parts;
  RowView row;
  std::int64_t task = w.claim();
  for (; task < tasks; task = w.claim()) {
    const Heads own = heads[task % heads.of_row];
    const std::int64_t part = task / heads.of_row % a.parts;
    const std::int64_t r = task / heads.of_row / a.parts;
    if (!splits(a, r, room, attention_slices)) {
      if (part == 0) attend_row<F>(a, r, own, w);
    } else if (view_row(a, r, w, row)) {
      attend_part<F>(a, row, own, part, room, w);
    }
    w.finished();
  }
  merge_rows(a, w, task, tasks, attention_slices, [&](const RowView& view, const Heads& own) { merge_slices(a, view, own, room); });
}

inline void merge_stretches(const AttentionArgs& a, const RowView& row, const Heads& heads, std::int64_t room) {
  const int head_dim = a.kv.head_dim;
  float* out = out_of(a, row.row, heads);
  Merged total;
  total.start(a, heads, out);
  for (std::int64_t s = 0; s < row.stretches(); ++s) {
    for (int h = 0; h < heads.count; ++h) {
      const float* from = partial_of(a, row.row * room + s, heads.first + h);
      total.add(h, from[head_dim], from[head_dim + 1], from, head_dim, out + h * head_dim);
    }
  }
  total.finish(heads.count, head_dim, out);
}

template <KvFormat F>
void attention_seqpar_long(const AttentionArgs& a, device::Worker& w) {
  const HeadTasks heads(a);
  const std::int64_t room = partial_room(a);
  std::int64_t most = 1;  // stretches of a row that is shared out
  for (std::int64_t r = 0; r < a.rows; ++r) {
    if (!splits(a, r, room, attention_stretches)) continue;
    const std::int64_t n = attention_stretches(kv_first_visible(a.kv, a.positions[r]), a.positions[r]);
    most = n > most ? n : most;
  }
  const std::int64_t tasks = a.rows * heads.of_row * most;
  RowView row;
  Queries<F> q;
  Stretch stretch;
  std::int64_t task = w.claim();
  for (; task < tasks; task = w.claim()) {
    const Heads own = heads[task % heads.of_row];
    const std::int64_t s = task / heads.of_row % most;
    const std::int64_t r = task / heads.of_row / most;
    if (!splits(a, r, room, attention_stretches)) {
      if (s == 0) attend_row<F>(a, r, own, w);
    } else if (view_row(a, r, w, row) && s < row.stretches()) {
      const std::int64_t begin = (row.first_stretch() + s) * kAttentionStretch;
      ask_for_first<F>(a.kv, row.sequence, row.position, own.kv_head, begin > row.first ? begin : row.first);
      take_queries(a, r, own, q);
      stretch.attend<F>(a, row, own, q, row.first_stretch() + s, w);
      store_partial(a, r * room + s, own, stretch.merged.largest, stretch.merged.total, stretch.o);
    }
    w.finished();
  }
  merge_rows(a, w, task, tasks, attention_stretches, [&](const RowView& view, const Heads& own) { merge_stretches(a, view, own, room); });
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
