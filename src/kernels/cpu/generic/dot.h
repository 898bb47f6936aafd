// Dot products of activation rows with weight rows, the core of every matrix product and of attention scores.
//
// One reduction order for all of them: lane l of one 8-lane accumulator takes k = l, l + 8, l + 16, ... in rising order, and
// sum8 adds the lanes. The tile sizes, the number of rows and whether weights were decoded in registers or before do not
// change it, so a row has the same bits alone and in any batch.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// The rows of one matrix of a WeightView.
struct WeightRows {
  const std::byte* data;
  const std::byte* scales;  // null unless the format keeps its scales apart
  std::int64_t row_stride;
  std::int64_t scale_row_stride;
  int cols;
  float factor;  // of all weights

  WeightRows(const WeightView& w, std::int64_t expert)
      : data(w.data.get() + expert * w.expert_stride),
        scales(w.scales ? w.scales.get() + expert * w.scale_expert_stride : nullptr),
        row_stride(w.row_stride), scale_row_stride(w.scales ? w.scale_row_stride : 0), cols(w.cols),
        factor(w.factors ? w.factors[expert] : 1.0F) {}

  const std::byte* row(std::int64_t n) const { return data + n * row_stride; }
  const std::byte* scale_row(std::int64_t n) const { return scales + n * scale_row_stride; }
};

// Sums of products with stored weights to those with the weights meant.
inline void apply_factor(float factor, float* sums, std::int64_t count) {
  if (factor == 1) return;
  for (std::int64_t i = 0; i < count; ++i) sums[i] *= factor;
}

// Unit `u` of a row: `data` and `scales` are where the row begins.
template <class C>
inline void decode_unit(const std::byte* data, const std::byte* scales, int u, F32x8* out) {
  if constexpr (requires { C::kParts; }) {
    C::decode(data + std::int64_t{u / C::kParts} * C::kBytes, u % C::kParts, out);
  } else {
    C::decode(data + std::int64_t{u} * C::kBytes, scales + (C::kScales ? u : 0), out);
  }
}

// The last cols % 8 elements of a row of a plain format, the rest zero. `data` points at them.
template <WeightFormat F>
inline F32x8 decode_tail(const std::byte* data, int n) {
  static_assert(Codec<F>::kUnit == 8, "blocks are whole");
  std::byte padded[Codec<F>::kBytes] = {};
  std::memcpy(padded, data, static_cast<std::size_t>(n) * (Codec<F>::kBytes / 8));
  F32x8 out;
  Codec<F>::decode(padded, nullptr, &out);
  return out;
}

// sums[r * sums_stride + j] = x[r] . row (first + j) for R rows of activations and N of weights, decoded in registers.
template <WeightFormat F, int R, int N>
inline void dot_direct(const WeightRows& w, std::int64_t first, const float* const* x, float* sums, std::int64_t sums_stride) {
  using C = Codec<F>;
  constexpr int kVectors = C::kUnit / 8;
  const std::byte* data[N];
  const std::byte* scales[N];
  const float* rows[R];
  F32x8 acc[R][N];
  for (int r = 0; r < R; ++r) rows[r] = x[r];
  for (int j = 0; j < N; ++j) {
    data[j] = w.row(first + j);
    scales[j] = w.scale_row(first + j);
    for (int r = 0; r < R; ++r) acc[r][j] = zero8();
  }
  const int units = w.cols / C::kUnit;
  for (int u = 0; u < units; ++u) {
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) {
      const std::int64_t at = std::int64_t{u} * C::kBytes;
      if (R <= kReadAheadRows && at % 64 < C::kBytes) ask_for_lines<2>(data[j] + at + kFarAhead, C::kBytes < 64 ? 64 : C::kBytes);
      F32x8 weights[kVectors];
      decode_unit<C>(data[j], scales[j], u, weights);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
        for (int i = 0; i < kVectors; ++i) {
          acc[r][j] = mul_add(weights[i], load8(rows[r] + u * C::kUnit + i * 8), acc[r][j]);
        }
      }
    }
  }
  if constexpr (C::kUnit == 8) {
    if (const int n = w.cols % 8; n != 0) {
      for (int j = 0; j < N; ++j) {
        const F32x8 weight = decode_tail<F>(data[j] + std::int64_t{units} * C::kBytes, n);
        for (int r = 0; r < R; ++r) acc[r][j] = mul_add(weight, load_first(rows[r] + w.cols - n, n), acc[r][j]);
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    if constexpr (N == 4) {
      sum8x4(acc[r][0], acc[r][1], acc[r][2], acc[r][3], sums + r * sums_stride);
    } else {
      for (int j = 0; j < N; ++j) sums[r * sums_stride + j] = sum8(acc[r][j]);
    }
  }
}

// Activation rows that can share one decoding in registers.
inline constexpr int kDirectRows = 4;

// Weight rows [first, first + count) for R rows. Four or eight chains of additions at once: a single one would leave the FMA
// units idle for three of four cycles.
template <WeightFormat F, int R>
inline void dot_direct_rows(const WeightRows& w, std::int64_t first, int count, const float* const* x, float* sums,
                            std::int64_t sums_stride) {
  constexpr int kOutputs = R <= 2 ? 4 : 2;
  int j = 0;
  for (; j + kOutputs <= count; j += kOutputs) dot_direct<F, R, kOutputs>(w, first + j, x, sums + j, sums_stride);
  for (; j < count; ++j) dot_direct<F, R, 1>(w, first + j, x, sums + j, sums_stride);
}

// sums[r * sums_stride + j] = x[r] . row (first + j), r < rows, j < count. REQUIRES: 1 <= rows <= kDirectRows.
template <WeightFormat F>
void dot_rows(const WeightRows& w, std::int64_t first, int count, const float* const* x, int rows, float* sums,
              std::int64_t sums_stride) {
  switch (rows) {
    case 1: return dot_direct_rows<F, 1>(w, first, count, x, sums, sums_stride);
    case 2: return dot_direct_rows<F, 2>(w, first, count, x, sums, sums_stride);
    case 3: return dot_direct_rows<F, 3>(w, first, count, x, sums, sums_stride);
    case 4: return dot_direct_rows<F, 4>(w, first, count, x, sums, sums_stride);
  }
}

// Decodes rows [first, first + count) to panel[count][stride]. REQUIRES: stride is cols rounded up to 8; the padding is zero.
template <WeightFormat F>
void decode_panel(const WeightRows& w, std::int64_t first, int count, float* panel, int stride) {
  using C = Codec<F>;
  constexpr int kVectors = C::kUnit / 8;
  for (int j = 0; j < count; ++j) {
    const std::byte* data = w.row(first + j);
    const std::byte* scales = w.scale_row(first + j);
    float* out = panel + std::int64_t{j} * stride;
    const int units = w.cols / C::kUnit;
    for (int u = 0; u < units; ++u) {
      F32x8 weights[kVectors];
      decode_unit<C>(data, scales, u, weights);
      for (int i = 0; i < kVectors; ++i) store8(out + u * C::kUnit + i * 8, weights[i]);
    }
    if constexpr (C::kUnit == 8) {
      if (const int n = w.cols % 8; n != 0) {
        store8(out + w.cols - n, decode_tail<F>(data + std::int64_t{units} * C::kBytes, n));
      }
    }
  }
}

// What a product needs to know of its weights' format. All else is compiled once for all formats: a call through a pointer for
// every few dozen rows costs nothing, and seven copies of the rest cost a minute of compilation.
struct RowOps {
  void (*dot)(const WeightRows& w, std::int64_t first, int count, const float* const* x, int rows, float* sums,
              std::int64_t sums_stride);
  void (*decode)(const WeightRows& w, std::int64_t first, int count, float* panel, int stride);
};
template <WeightFormat F>
constexpr RowOps kRowOps = {dot_rows<F>, decode_panel<F>};

// One register tile: R rows of activations against N rows of floats `stride` apart, k in [k0, k1). `acc` goes in and out.
template <int R, int N>
inline void dot_tile(const float* const* x, const float* w, std::int64_t stride, int k0, int k1, F32x8 (&acc)[R][N]) {
  const float* rows[R];
  for (int r = 0; r < R; ++r) rows[r] = x[r];
  int k = k0;
  for (; k + 8 <= k1; k += 8) {
    F32x8 weights[N];
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) weights[j] = load8(w + j * stride + k);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const F32x8 activation = load8(rows[r] + k);
#pragma GCC unroll 8
      for (int j = 0; j < N; ++j) acc[r][j] = mul_add(weights[j], activation, acc[r][j]);
    }
  }
  if (k < k1) {
    for (int r = 0; r < R; ++r) {
      const F32x8 activation = load_first(rows[r] + k, k1 - k);
      for (int j = 0; j < N; ++j) acc[r][j] = mul_add(load8(w + j * stride + k), activation, acc[r][j]);
    }
  }
}

template <int R, int N>
inline void tile_sums(const F32x8 (&acc)[R][N], float* sums, std::int64_t sums_stride) {
  for (int r = 0; r < R; ++r) {
    if constexpr (N == 3) {
      float lanes[4];
      sum8x4(acc[r][0], acc[r][1], acc[r][2], acc[r][2], lanes);
      std::memcpy(sums + r * sums_stride, lanes, 3 * sizeof(float));
    } else {
      for (int j = 0; j < N; ++j) sums[r * sums_stride + j] = sum8(acc[r][j]);
    }
  }
}

template <int R, int N>
inline void dot_tile_sums(const float* const* x, const float* w, std::int64_t stride, int cols, float* sums,
                          std::int64_t sums_stride) {
  F32x8 acc[R][N];
  for (int r = 0; r < R; ++r) {
    for (int j = 0; j < N; ++j) acc[r][j] = zero8();
  }
  dot_tile<R, N>(x, w, stride, 0, cols, acc);
  tile_sums<R, N>(acc, sums, sums_stride);
}

template <int R>
inline void dot_panel_rows(const float* const* x, const float* w, std::int64_t stride, int count, int cols, float* sums,
                           std::int64_t sums_stride) {
  int j = 0;
  for (; j + kTileOutputs <= count; j += kTileOutputs) {
    dot_tile_sums<R, kTileOutputs>(x, w + j * stride, stride, cols, sums + j, sums_stride);
  }
  for (; j < count; ++j) dot_tile_sums<R, 1>(x, w + j * stride, stride, cols, sums + j, sums_stride);
}

// sums[r * sums_stride + j] = x[r] . w[j], r < rows, j < count. REQUIRES: 1 <= rows <= kTileRows; each row of w can be read up
// to cols rounded up to 8, where it is zero.
inline void dot_panel(const float* const* x, int rows, const float* w, std::int64_t stride, int count, int cols, float* sums,
                      std::int64_t sums_stride) {
  static_assert(kTileRows <= 4);
  switch (rows) {
    case 1: return dot_panel_rows<1>(x, w, stride, count, cols, sums, sums_stride);
    case 2: return dot_panel_rows<2>(x, w, stride, count, cols, sums, sums_stride);
    case 3: return dot_panel_rows<3>(x, w, stride, count, cols, sums, sums_stride);
    case 4: return dot_panel_rows<4>(x, w, stride, count, cols, sums, sums_stride);
  }
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
