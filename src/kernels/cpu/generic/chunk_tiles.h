// The two products of a chunk of keys, in register tiles of vectors of eight: scores by chains of eight lanes added up as in dot.h, values
// added in the order of the keys.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// Query heads that walk K and V together: the groups of 8 of gpt-oss. Larger groups walk the keys again.
inline constexpr int kHeadTile = 8;

// scores[r][j] = q[r] . k[j] for R heads and N keys.
template <class E, int R, int N>
inline void score_tile(const float* const* q, const std::byte* k, int head_dim, float* scores) {
  const std::int64_t stride = std::int64_t{head_dim} * E::kBytes;
  F32x8 acc[R][N];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) acc[r][n] = zero8();
  }
  for (int d = 0; d < head_dim; d += 8) {
    F32x8 keys[N];
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) keys[n] = E::load(k + n * stride + d * E::kBytes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const F32x8 x = load8(q[r] + d);
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) acc[r][n] = mul_add(keys[n], x, acc[r][n]);
    }
  }
  if constexpr (N % 4 == 0) {
    for (int r = 0; r < R; ++r) {
      for (int n = 0; n < N; n += 4) sum8x4(acc[r][n], acc[r][n + 1], acc[r][n + 2], acc[r][n + 3], scores + r * kChunk + n);
    }
  } else if constexpr (N == 2 && R % 2 == 0) {
    for (int r = 0; r < R; r += 2) {
      float sums[4];
      sum8x4(acc[r][0], acc[r][1], acc[r + 1][0], acc[r + 1][1], sums);
      std::memcpy(scores + r * kChunk, sums, 8);
      std::memcpy(scores + (r + 1) * kChunk, sums + 2, 8);
    }
  } else {
    for (int r = 0; r < R; ++r) {
      for (int n = 0; n < N; ++n) scores[r * kChunk + n] = sum8(acc[r][n]);
    }
  }
}

// What value_tile needs of vectors of eight.
template <KvFormat F>
struct Values8 {
  using Vector = F32x8;
  static constexpr int kLanes = 8;
  static Vector values(const std::byte* from) { return KvForm<F>::load(from); }
  static Vector sums(const float* from, float keep) { return load8(from) * splat(keep); }
  static void store(float* to, Vector x) { store8(to, x); }
  static Vector weight(float x) { return splat(x); }
  static Vector add(Vector weight, Vector values, Vector sums) { return mul_add(weight, values, sums); }
};

// o[r][d] = keep[r] * o[r][d] + the sum over keys j in order of p[r][j] * v[j][d], for R heads and D vectors V of d. With `ask`, the lines of V that begin here are
// asked for in the keys ahead.
template <template <KvFormat> class V, KvFormat F, int R, int D>
[[gnu::always_inline]] inline void value_tile(const float* p, const float* keep, const ChunkRuns& runs, std::int64_t chunk, int first_d, int head_dim, bool ask, float* o) {
  using Lanes = V<F>;
  constexpr std::int64_t kBytes = kv_element_bytes(F);
  typename Lanes::Vector acc[R][D];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int d = 0; d < D; ++d) acc[r][d] = Lanes::sums(o + r * head_dim + first_d + d * Lanes::kLanes, keep[r]);
  }
  const std::int64_t stride = head_dim * kBytes;
  for (int i = 0; i < runs.count; ++i) {
    const KeyRun& run = runs.runs[i];
    const float* weights = p + (run.first - chunk);
    const std::byte* v = run.v + first_d * kBytes;
    const std::byte* ahead = ask && first_d * kBytes % 64 == 0 ? run.v_ahead : nullptr;
    for (int j = 0; j < run.count; ++j, v += stride) {
      if (ahead != nullptr) ask_for_keys(ahead + j * stride + first_d * kBytes, D * Lanes::kLanes * kBytes, run.near);
      typename Lanes::Vector values[D];
#pragma GCC unroll 8
      for (int d = 0; d < D; ++d) values[d] = Lanes::values(v + d * Lanes::kLanes * kBytes);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const typename Lanes::Vector weight = Lanes::weight(weights[r * kChunk + j]);
#pragma GCC unroll 8
        for (int d = 0; d < D; ++d) acc[r][d] = Lanes::add(weight, values[d], acc[r][d]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int d = 0; d < D; ++d) Lanes::store(o + r * head_dim + first_d + d * Lanes::kLanes, acc[r][d]);
  }
}

// Calls f<R>(h) for heads h..h+R-1 in tiles of 4, 2 and 1. Eight chains of additions fill the two FMA units for their four cycles.
template <class F>
inline void each_tile(int heads, F&& f) {
  int h = 0;
  for (; h + 4 <= heads; h += 4) f(std::integral_constant<int, 4>{}, h);
  if (h + 2 <= heads) {
    f(std::integral_constant<int, 2>{}, h);
    h += 2;
  }
  if (h < heads) f(std::integral_constant<int, 1>{}, h);
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
