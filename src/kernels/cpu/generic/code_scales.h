// The codes that attention over q8 pages multiplies (kernels/api/attention.h): whole numbers that stand for floats, and their scale.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

struct CodeScales {
  F32x8 inverse;  // code = x * inverse, rounded
  F32x8 scale;    // x = code * scale
};

// For magnitudes of which `largest` is the largest. What is too small becomes zeros.
inline CodeScales code_scales(F32x8 largest, int most) {
  const F32x8 smallest = splat(kQ8Smallest);
  const F32x8 codes = splat(static_cast<float>(most));
  return {if_less(largest, smallest, zero8(), codes / largest), if_less(largest, smallest, zero8(), largest / codes)};
}

// x to the nearest whole number, ties to the even one. |x| < 2^22; of others, any number.
inline std::int32_t nearest(float x) {
  constexpr float kMagic = 12582912.0F;  // 1.5 * 2^23: a sum with it keeps no fraction, and its low bits are the number
  return std::bit_cast<std::int32_t>(x + kMagic) - std::bit_cast<std::int32_t>(kMagic);
}

// A query head to codes; their scale, NaN when an element is not finite.
inline float query_codes(const float* q, int head_dim, std::int16_t* codes) {
  F32x8 most = zero8();
  F32x8 check = zero8();  // stays 0 while all are finite
  for (int d = 0; d < head_dim; d += 8) {
    const F32x8 x = load8(q + d);
    most = max8(max8(x, zero8() - x), most);
    check = mul_add(x, zero8(), check);
  }
  const CodeScales scales = code_scales(splat(max_of(most)), kQueryCodes);
  float inverse[8], scale[8];
  store8(inverse, scales.inverse);
  store8(scale, scales.scale);
  for (int d = 0; d < head_dim; ++d) codes[d] = static_cast<std::int16_t>(nearest(q[d] * inverse[0]));
  return scale[0] + sum8(check);
}

// Keys that are laid out together, for products in codes: neighbours, one row after the other.
inline constexpr int kKeyGroup = 16;
static_assert(kChunk % kKeyGroup == 0);
inline constexpr int kChunkGroups = kChunk / kKeyGroup;

struct KeyGroup {
  const std::byte* k;
  const std::byte* v;
  // What is asked for, a row at a time, while the group's keys are laid out, and while its values are; or null. Scores ask for the values of their
  // own chunk and values for the keys of the next: what is laid out is used up at once, so that asking a few rows ahead would come too late, and
  // asking for all that comes next on each of the two ways would leave memory idle between them. Into the first-level cache: asked into the second,
  // a fast memory gave more (2,048 keys of 16 heads over 4 on a Zen 4, 55 us for 61), a slow one less (88 for 70).
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
