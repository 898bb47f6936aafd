// Attention of prompts: a block of rows of one sequence walks its keys together. A chunk of K and V is found and converted to floats (q8: laid out)
// once, stays in the cache, and serves every row and query head of the block; chunks that no row of the block sees are never touched.
// Each row's chunks, slices and sums are those of attention.h, so the bits are too.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// Rows of a block: enough to share the finding and converting of a chunk; few enough that 2,048 rows are 128 tasks a KV head, and
// that the block's accumulators (twice 16 x 8 x 64 floats, 64 KiB) and the chunk stay in the second-level cache.
inline constexpr int kBlockRows = 16;

// Worker scratch of a block.
struct TiledScratch {
  HeadTile softmax[kBlockRows];
  Merged stretch[kBlockRows];
  Merged total[kBlockRows];
  float slice_o[kBlockRows * kHeadTile * kMaxHeadDim];  // [rows][heads][head_dim], without gaps
  float stretch_o[kBlockRows * kHeadTile * kMaxHeadDim];
  union {
    struct {
      float k[kChunk * kMaxHeadDim];
      float v[kChunk * kMaxHeadDim];
    } floats;
    struct {
      Queries<KvFormat::q8> queries[kBlockRows];
      ChunkCodes chunk;
      GatheredRows gathered;
    } codes;
  };
};
static_assert(sizeof(TiledScratch) <= device::kWorkerScratchBytes);

// The chunk's rows as floats (without their scales), [kChunk][head_dim]; `runs` then point there. Asks for the rows ahead.
template <KvFormat F>
inline void unpack_chunk(ChunkRuns& runs, std::int64_t chunk, int head_dim, TiledScratch& s) {
  for (int i = 0; i < runs.count; ++i) {
    KeyRun& run = runs.runs[i];
    const std::int64_t n = std::int64_t{run.count} * head_dim;
    float* k = s.floats.k + (run.first - chunk) * head_dim;
    float* v = s.floats.v + (run.first - chunk) * head_dim;
    for (std::int64_t e = 0; e < n; e += 8) {
      if (run.k_ahead != nullptr && e * KvForm<F>::kBytes % 64 == 0) {
        ask_for_lines<2>(run.k_ahead + e * KvForm<F>::kBytes, 64);
        ask_for_lines<2>(run.v_ahead + e * KvForm<F>::kBytes, 64);
      }
      store8(k + e, KvForm<F>::load(run.k + e * KvForm<F>::kBytes));
      store8(v + e, KvForm<F>::load(run.v + e * KvForm<F>::kBytes));
    }
    run.k = reinterpret_cast<const std::byte*>(k);
    run.v = reinterpret_cast<const std::byte*>(v);
  }
}

// Asks for part `part` of `parts` of the rows ahead.
[[gnu::always_inline]] inline void ask_for_rows_ahead(const ChunkRuns& runs, std::int64_t row_bytes, int part, int parts) {
  for (int i = 0; i < runs.count; ++i) {
    const KeyRun& run = runs.runs[i];
    if (run.k_ahead == nullptr) continue;
    const std::int64_t from = run.count * row_bytes * part / parts;
    const std::int64_t bytes = run.count * row_bytes * (part + 1) / parts - from;
    ask_for_lines<2>(run.k_ahead + from, bytes);
    ask_for_lines<2>(run.v_ahead + from, bytes);
  }
}

// The part of `all` inside [lo, hi).
inline void clip_runs(const ChunkRuns& all, std::int64_t lo, std::int64_t hi, std::int64_t row_bytes, ChunkRuns& out) {
  out.count = 0;
  out.keys = 0;
  for (int i = 0; i < all.count; ++i) {
    const KeyRun& run = all.runs[i];
    const std::int64_t from = run.first > lo ? run.first : lo;
    const std::int64_t to = run.first + run.count < hi ? run.first + run.count : hi;
    if (from >= to) continue;
    const std::int64_t skip = from - run.first;
    const std::int64_t bytes = skip * row_bytes;
    out.runs[out.count++] = {from,
                             static_cast<int>(to - from),
                             run.page,
                             run.k + bytes,
                             run.v + bytes,
                             run.k_scales == nullptr ? nullptr : run.k_scales + skip,
                             run.v_scales == nullptr ? nullptr : run.v_scales + skip,
                             nullptr,
                             nullptr,
                             false};
    out.keys += static_cast<int>(to - from);
  }
}

// Adds one slice of a row to its stretch, and the stretch, when that was its last slice, to the row.
inline void merge_slice(const AttentionArgs& a, const RowView& row, const Heads& heads, std::int64_t slice, const HeadTile& t, const float* slice_o,
                        Merged& stretch, float* stretch_o, Merged& total) {
  const int head_dim = a.kv.head_dim;
  const RowView::Slices seen = row.slices_of(slice * kAttentionSlice / kAttentionStretch);
  if (slice < seen.begin || slice >= seen.end) return;
  if (slice == seen.begin) {
    stretch.start(t);
    std::memcpy(stretch_o, slice_o, static_cast<std::size_t>(heads.count) * head_dim * 4);
  } else {
    for (int h = 0; h < heads.count; ++h) stretch.add(h, t.largest[h], t.total[h], slice_o + h * head_dim, head_dim, stretch_o + h * head_dim);
  }
  if (slice + 1 < seen.end) return;
  float* out = out_of(a, row.row, heads);
  for (int h = 0; h < heads.count; ++h) total.add(h, stretch.largest[h], stretch.total[h], stretch_o + h * head_dim, head_dim, out + h * head_dim);
}

// Rows first.row .. first.row + count - 1, at rising positions one apart.
template <KvFormat F>
inline void attend_block(const AttentionArgs& a, const RowView* rows, int count, const Heads& heads, device::Worker& w) {
  const KvView& kv = a.kv;
  const int head_dim = kv.head_dim;
  auto& s = *w.scratch_as<TiledScratch>();
  const std::int64_t tile = std::int64_t{heads.count} * head_dim;
  constexpr bool kUnpacks = F == KvFormat::f16 || F == KvFormat::bf16;
  const std::int64_t row_bytes = head_dim * kv_element_bytes(kUnpacks ? KvFormat::f32 : F);  // of what runs point to
  for (int r = 0; r < count; ++r) {
    s.total[r].start(a, heads, out_of(a, rows[r].row, heads));
    if constexpr (F == KvFormat::q8) take_queries(a, rows[r].row, heads, s.codes.queries[r]);
  }
  const std::int64_t lo = rows[0].first;
  const std::int64_t hi = rows[count - 1].position + 1;
  ChunkRuns all;
  ChunkRuns own;
  for (std::int64_t slice = lo / kAttentionSlice * kAttentionSlice; slice < hi; slice += kAttentionSlice) {
    const std::int64_t end = slice + kAttentionSlice < hi ? slice + kAttentionSlice : hi;
    std::memset(s.slice_o, 0, static_cast<std::size_t>(count * tile) * 4);
    for (int r = 0; r < count; ++r) {
      HeadTile& t = s.softmax[r];
      t.heads = heads.count;
      for (int h = 0; h < heads.count; ++h) {
        t.largest[h] = -std::numeric_limits<float>::infinity();
        t.total[h] = 0;
      }
    }
    for (std::int64_t chunk = (lo > slice ? lo : slice) / kChunk * kChunk; chunk < end; chunk += kChunk) {
      find_runs(kv, rows[0].sequence, heads.kv_head, lo > chunk ? lo : chunk, hi < chunk + kChunk ? hi : chunk + kChunk, rows[0].row, w, all);
      for (int i = 0; i < all.count; ++i) look_far<F>(kv, rows[0].sequence, hi - 1, heads.kv_head, all.runs[i]);
      if constexpr (kUnpacks) unpack_chunk<F>(all, chunk, head_dim, s);
      if constexpr (F == KvFormat::q8) {
        KeyGroup groups[kChunkGroups];
        find_groups(all, chunk, head_dim, false, s.codes.gathered, groups);
        lay_out(groups, groups_of(all, chunk), head_dim, s.codes.chunk);
      }
      for (int r = 0; r < count; ++r) {
        if constexpr (!kUnpacks) ask_for_rows_ahead(all, row_bytes, r, count);  // not all at once: a burst is waited for
        clip_runs(all, rows[r].first, rows[r].position + 1, row_bytes, own);
        if (own.count == 0) continue;
        float* o = s.slice_o + r * tile;
        if constexpr (F == KvFormat::q8) {
          attend_codes(a, s.codes.queries[r], own, chunk, nullptr, s.codes.chunk, s.softmax[r], o);
        } else {
          Queries<KvFormat::f32> q;
          take_queries(a, rows[r].row, heads, q);
          attend_chunk<KvFormat::f32>(a, q, own, chunk, s.softmax[r], o);
        }
      }
    }
    for (int r = 0; r < count; ++r) {
      merge_slice(a, rows[r], heads, slice / kAttentionSlice, s.softmax[r], s.slice_o + r * tile, s.stretch[r], s.stretch_o + r * tile, s.total[r]);
    }
  }
  for (int r = 0; r < count; ++r) s.total[r].finish(heads.count, head_dim, out_of(a, rows[r].row, heads));
}

// Blocks are cut where a sequence or its run of positions ends.
template <KvFormat F>
void attention_tiled(const AttentionArgs& a, device::Worker& w) {
  const HeadTasks heads(a);
  const std::int64_t blocks = (std::int64_t{a.rows} + kBlockRows - 1) / kBlockRows;
  const std::int64_t tasks = blocks * heads.of_row;
  for (std::int64_t task = w.claim(); task < tasks; task = w.claim()) {
    const Heads own = heads[task % heads.of_row];
    // The last block first: it sees the most keys, and a long task claimed last would be waited for.
    const std::int64_t block = blocks - 1 - task / heads.of_row;
    const std::int64_t last = (block + 1) * kBlockRows < a.rows ? (block + 1) * kBlockRows : a.rows;
    for (std::int64_t row = block * kBlockRows; row < last;) {
      RowView rows[kBlockRows];
      int count = 0;
      while (row + count < last) {
        const bool follows = count == 0 || (a.sequences[row + count] == rows[0].sequence && a.positions[row + count] == rows[0].position + count);
        if (!follows || !view_row(a, row + count, w, rows[count])) break;
        ++count;
      }
      if (count >= 2) {
        attend_block<F>(a, rows, count, own, w);
        row += count;
      } else {
        attend_row<F>(a, row, own, w);
        ++row;
      }
    }
  }
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
