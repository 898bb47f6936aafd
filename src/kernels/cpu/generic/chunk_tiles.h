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

// o[r][d] += sum over keys j in order of p[r][j] * v[j][d], for R heads and D vectors of d. With `ask`, the lines of V that begin here are
// asked for in the keys ahead.
template <class E, int R, int D>
inline void value_tile(const float* p, const ChunkRuns& runs, std::int64_t chunk, int first_d, int head_dim, bool ask, float* o) {
  F32x8 acc[R][D];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int d = 0; d < D; ++d) acc[r][d] = load8(o + r * head_dim + first_d + d * 8);
  }
  const std::int64_t stride = std::int64_t{head_dim} * E::kBytes;
  for (int i = 0; i < runs.count; ++i) {
    const KeyRun& run = runs.runs[i];
    const float* weights = p + (run.first - chunk);
    const std::byte* v = run.v + first_d * E::kBytes;
    const std::byte* ahead = ask && first_d * E::kBytes % 64 == 0 ? run.v_ahead : nullptr;
    for (int j = 0; j < run.count; ++j, v += stride) {
      if (ahead != nullptr) ask_for_lines(ahead + j * stride + first_d * E::kBytes, D * 8 * E::kBytes);
      F32x8 values[D];
#pragma GCC unroll 8
      for (int d = 0; d < D; ++d) values[d] = E::load(v + d * 8 * E::kBytes);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const F32x8 weight = splat(weights[r * kChunk + j]);
#pragma GCC unroll 8
        for (int d = 0; d < D; ++d) acc[r][d] = mul_add(weight, values[d], acc[r][d]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int d = 0; d < D; ++d) store8(o + r * head_dim + first_d + d * 8, acc[r][d]);
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
