// The keys of a chunk in groups, for products in codes: what is laid out at once, and what is asked for meanwhile.
//
// While keys are scored, the values of the same chunk are asked for; while values are added, the keys of the next. Keys that are laid out are used up at
// once, so rows a few keys ahead would come too late; and each walk asks for what the other needs, since one that asked for its own next rows would leave
// memory idle during the other. Into the first-level cache: into the second, a fast memory gave more and a slow one less (docs/BENCHMARKS.md).
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// Keys that are laid out together: neighbours, one row after the other.
inline constexpr int kKeyGroup = 16;
static_assert(kChunk % kKeyGroup == 0);
inline constexpr int kChunkGroups = kChunk / kKeyGroup;

struct KeyGroup {
  const std::byte* k;
  const std::byte* v;
  // What is asked for while the group's keys are laid out, and while its values are; null: nothing.
  const std::byte* with_keys;
  const std::byte* with_values;
};

// The groups of a chunk in which a row sees keys: [first, end).
struct Groups {
  int first;
  int end;
};
// REQUIRES: runs.count > 0.
inline Groups groups_of(const ChunkRuns& runs, std::int64_t chunk) {
  const KeyRun& last = runs.runs[runs.count - 1];
  return {static_cast<int>(runs.runs[0].first - chunk) / kKeyGroup, static_cast<int>(last.first + last.count - chunk + kKeyGroup - 1) / kKeyGroup};
}

// Room for the rows of groups that do not lie in one piece.
struct GatheredRows {
  std::byte k[kChunk * kMaxHeadDim];
  std::byte v[kChunk * kMaxHeadDim];
};

// Finds the groups of a chunk. What is not in one run is gathered; where there is no key, whatever was there before is multiplied, but such a score is
// hidden and such a weight 0 (attention_chunk.h). `ask`: for what comes next.
inline void find_groups(const ChunkRuns& runs, std::int64_t chunk, int head_dim, bool ask, GatheredRows& gathered, KeyGroup* out) {
  const Groups groups = groups_of(runs, chunk);
  int i = 0;
  for (int g = groups.first; g < groups.end; ++g) {
    const std::int64_t begin = chunk + g * kKeyGroup;
    const std::int64_t end = begin + kKeyGroup;
    while (runs.runs[i].first + runs.runs[i].count <= begin) ++i;  // the last run ends behind the beginning of the last group
    const KeyRun& run = runs.runs[i];
    if (run.first <= begin && run.first + run.count >= end) {
      const std::int64_t at = (begin - run.first) * head_dim;
      out[g] = {run.k + at, run.v + at, ask ? run.v + at : nullptr, ask && run.k_ahead != nullptr ? run.k_ahead + at : nullptr};
      continue;
    }
    std::byte* k = gathered.k + g * kKeyGroup * head_dim;
    std::byte* v = gathered.v + g * kKeyGroup * head_dim;
    for (int r = i; r < runs.count && runs.runs[r].first < end; ++r) {
      const KeyRun& part = runs.runs[r];
      const std::int64_t from = part.first > begin ? part.first : begin;
      const std::int64_t to = part.first + part.count < end ? part.first + part.count : end;
      const auto size = static_cast<std::size_t>((to - from) * head_dim);
      std::memcpy(k + (from - begin) * head_dim, part.k + (from - part.first) * head_dim, size);
      std::memcpy(v + (from - begin) * head_dim, part.v + (from - part.first) * head_dim, size);
    }
    out[g] = {k, v, nullptr, nullptr};
  }
}

// Asks for rows of a group, unless there are none.
[[gnu::always_inline]] inline void ask_for_group_rows(const std::byte* rows, int first, int count, int head_dim) {
  if (rows != nullptr) ask_for_lines<1>(rows + std::int64_t{first} * head_dim, std::int64_t{count} * head_dim);
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
