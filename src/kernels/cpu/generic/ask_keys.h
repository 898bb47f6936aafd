// Asking for the keys and values that attention will come to.
//
// Pages that follow each other in the pool are streams (kernels/api/kv_view.h), which the processor's prefetchers follow from run to run; asking into
// the first-level cache, a page ahead, only starts them in time after the other stream was walked. Where pages lie apart nothing but the asking
// brings them, and it must be earlier than the first-level cache lasts: into the second. On a Zen 4 (2,048 keys of 16 heads over 4, f16, from
// memory) a stream asked for far takes a sixth longer than one asked for near, and scattered pages asked for near half as long again.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// How many keys before they are used.
inline constexpr std::int64_t kAskNear = 16;
inline constexpr std::int64_t kAskFar = 64;
static_assert(kAskFar == kChunk);  // products in codes ask for the next chunk (key_groups.h)

[[gnu::always_inline]] inline void ask_for_keys(const std::byte* from, std::int64_t bytes, bool near) {
  if (near) {
    ask_for_lines<1>(from, bytes);
  } else {
    ask_for_lines<2>(from, bytes);
  }
}

// Where keys of a head lie. A page of -1 where there is none. Silent: what is wrong with a page is counted when the page is used.
struct KeyPlace {
  std::int64_t page;
  std::int64_t row;
  std::int64_t scale;
};
inline KeyPlace place_of(const KvView& kv, std::int64_t sequence, int kv_head, std::int64_t key) {
  std::int64_t logical = logical_page(kv, key);
  if (kv.window != 0) logical = static_cast<std::uint32_t>(logical) % static_cast<std::uint32_t>(kv.table_pages);
  const std::int64_t page = logical < kv.table_pages ? kv.table[sequence * kv.table_pages + logical] : -1;
  if (page < 0 || page >= kv.pages) return {-1, 0, 0};
  const std::int64_t block = kv_block(kv, page, kv_head);
  const std::int64_t in_page = key & (kv.page_rows - 1);
  return {page, block + kv_row_in_block(kv, in_page), block + kv_scales_in_block(kv) + in_page * 4};
}

template <KvFormat F>
[[gnu::always_inline]] inline void ask_for_scales(const KvView& kv, const KeyPlace& place, std::int64_t keys, bool near) {
  if constexpr (F == KvFormat::q8) {
    ask_for_keys(kv.k.get() + place.scale, keys * 4, near);
    ask_for_keys(kv.v.get() + place.scale, keys * 4, near);
  }
}

// Asks for the first keys that a row at `position` or a part of it sees, from `lo` on.
template <KvFormat F>
[[gnu::always_inline]] inline void ask_for_first(const KvView& kv, std::int64_t sequence, std::int64_t position, int kv_head, std::int64_t lo) {
  const std::int64_t row_bytes = kv.head_dim * kv_element_bytes(F);
  const std::int64_t hi = lo + kAskNear < position + 1 ? lo + kAskNear : position + 1;
  while (lo < hi) {
    const std::int64_t left = kv.page_rows - (lo & (kv.page_rows - 1));
    const std::int64_t end = lo + left < hi ? lo + left : hi;
    if (const KeyPlace place = place_of(kv, sequence, kv_head, lo); place.page >= 0) {
      ask_for_keys(kv.k.get() + place.row, (end - lo) * row_bytes, true);
      ask_for_keys(kv.v.get() + place.row, (end - lo) * row_bytes, true);
      ask_for_scales<F>(kv, place, end - lo, true);
    }
    lo = end;
  }
}

// Notes for a run where the keys lie that are to be asked for while it is walked. They are taken to lie in one page, as they do unless pages are
// larger than the distance; then what follows the page is asked for in place of some of them.
template <KvFormat F>
[[gnu::always_inline]] inline void note_ahead(const KvView& kv, const KeyPlace& place, KeyRun& run, bool near) {
  run.k_ahead = kv.k.get() + place.row;
  run.v_ahead = kv.v.get() + place.row;
  run.near = near;
  ask_for_scales<F>(kv, place, run.count, near);
}

// Far ahead, for whoever computes long with a chunk.
template <KvFormat F>
[[gnu::always_inline]] inline void look_far(const KvView& kv, std::int64_t sequence, std::int64_t position, int kv_head, KeyRun& run) {
  if (run.first + kAskFar > position) return;
  if (const KeyPlace place = place_of(kv, sequence, kv_head, run.first + kAskFar); place.page >= 0) note_ahead<F>(kv, place, run, false);
}

// Says for each run of a chunk what to ask for while it is walked; the products do so key by key, since what is asked for all at once is waited for.
template <KvFormat F>
[[gnu::always_inline]] inline void look_ahead(const KvView& kv, std::int64_t sequence, std::int64_t position, int kv_head, ChunkRuns& runs) {
  for (int i = 0; i < runs.count; ++i) {
    KeyRun& run = runs.runs[i];
    if (run.first + kAskNear > position) continue;
    const KeyPlace place = place_of(kv, sequence, kv_head, run.first + kAskNear);
    if (place.page < 0) continue;
    if (place.page == run.page || place.page == run.page + 1) {
      note_ahead<F>(kv, place, run, true);
    } else {
      look_far<F>(kv, sequence, position, kv_head, run);
    }
  }
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
