// Products of q8 activations with packed weights: the integer sums of each block by q8_block.h, scaled and added in f32.
//
// One order for all row counts: an output adds its blocks one after the other, in rising k, in one lane of one accumulator. So
// decode, small batches and prefill give the same bits, and so does any number of threads.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// Rows of activations that share one decoding of a block. With eight, decoding is an eighth of the work that is left.
inline constexpr int kQ8TileRows = 8;
// Outputs of a task: 34 KiB of 4-bit weights of 1,024 columns, which stay in the second-level cache while the rows of a prompt
// pass over them, and take a microsecond or two to stream when there is one row.
inline constexpr int kQ8Panel = 64;
// Rows of a task, so that a long prompt over a small matrix still has work for every worker.
inline constexpr int kQ8RowBlock = 128;

// One matrix of a packed WeightView, by groups of eight rows.
struct PackedRows {
  const std::byte* data;
  const std::byte* scales;
  std::int64_t group_bytes;
  std::int64_t scale_group_bytes;
  std::int64_t cols;

  PackedRows(const WeightView& w, std::int64_t expert)
      : data(w.data.get() + expert * w.expert_stride), scales(w.scales.get() + expert * w.scale_expert_stride),
        group_bytes(8 * w.row_stride), scale_group_bytes(8 * w.scale_row_stride), cols(w.cols) {}
};

// sums[r * stride + j] = x[r] . row (8 * group + j), for R rows and j < 8.
template <WeightFormat F, int R>
inline void q8_dot_group(const PackedRows& w, std::int64_t group, const Q8Block* const* x, float* sums, std::int64_t stride) {
  const std::int64_t blocks = w.cols / kQ8Block;
  const std::int64_t block_bytes = w.group_bytes / blocks;
  const std::int64_t scale_bytes = w.scale_group_bytes / blocks;
  const std::byte* data = w.data + group * w.group_bytes;
  const std::byte* scales = w.scales + group * w.scale_group_bytes;
  const Q8Block* rows[R];
  F32x8 acc[R];
  for (int r = 0; r < R; ++r) {
    rows[r] = x[r];
    acc[r] = zero8();
  }
  for (std::int64_t b = 0; b < blocks; ++b) PackedBlock<F>::template add<R>(data + b * block_bytes, scales + b * scale_bytes, rows, b, acc);
  for (int r = 0; r < R; ++r) store8(sums + r * stride, acc[r]);
}

template <WeightFormat F, int R>
void q8_dot_rows(const PackedRows& w, std::int64_t first, int groups, const Q8Block* const* x, float* sums, std::int64_t stride) {
  for (int g = 0; g < groups; ++g) q8_dot_group<F, R>(w, first + g, x, sums + 8 * g, stride);
}

// sums[r * stride + j] = x[r] . row (8 * first + j), r < rows, j < 8 * groups. REQUIRES: 1 <= rows <= kQ8TileRows.
template <WeightFormat F>
void q8_dot(const PackedRows& w, std::int64_t first, int groups, const Q8Block* const* x, int rows, float* sums, std::int64_t stride) {
  switch (rows) {
    case 1: return q8_dot_rows<F, 1>(w, first, groups, x, sums, stride);
    case 2: return q8_dot_rows<F, 2>(w, first, groups, x, sums, stride);
    case 3: return q8_dot_rows<F, 3>(w, first, groups, x, sums, stride);
    case 4: return q8_dot_rows<F, 4>(w, first, groups, x, sums, stride);
    case 5: return q8_dot_rows<F, 5>(w, first, groups, x, sums, stride);
    case 6: return q8_dot_rows<F, 6>(w, first, groups, x, sums, stride);
    case 7: return q8_dot_rows<F, 7>(w, first, groups, x, sums, stride);
    case 8: return q8_dot_rows<F, 8>(w, first, groups, x, sums, stride);
  }
}

// The cut into tasks. As ProductPlan (product.h), without a decoded panel.
struct Q8Plan {
  int panel;  // outputs of a task, a multiple of 8
  std::int64_t outputs;
  std::int64_t rows;

  Q8Plan(std::int64_t outputs_, std::int64_t rows_, int workers) : outputs(outputs_), rows(rows_) {
    const std::int64_t even = (outputs / (4 * workers) + 7) / 8 * 8;
    panel = static_cast<int>(even < 8 ? 8 : even < kQ8Panel ? even : kQ8Panel);
  }
  std::int64_t row_blocks() const { return (rows + kQ8RowBlock - 1) / kQ8RowBlock; }
  std::int64_t tasks() const { return (outputs + panel - 1) / panel * row_blocks(); }
};

using Q8DotFn = void (*)(const PackedRows& w, std::int64_t first, int groups, const Q8Block* const* x, int rows, float* sums,
                         std::int64_t stride);

// The q8 path of the ops that multiply (product.h has the other): what they need to know of activations and weights.
struct Q8Path {
  using Weights = PackedRows;
  Q8DotFn dot;

  Q8Plan plan(std::int64_t outputs, int, std::int64_t rows, int, int workers) const { return {outputs, rows, workers}; }

  // Row i of the activations of an op.
  template <class Args>
  static const Q8Block* input(const Args& a, std::int64_t i, std::int64_t cols) {
    return q8_row(a.in_q8.get(), i, cols);
  }

  // As run_product.
  template <int M, class In, class Done>
  void run(const Q8Plan& plan, std::int64_t task, const PackedRows (&weights)[M], In&& in, Done&& done, device::Worker&) const {
    const std::int64_t first = task / plan.row_blocks() * plan.panel;
    const int count = static_cast<int>(plan.outputs - first < plan.panel ? plan.outputs - first : plan.panel);
    const std::int64_t lo = task % plan.row_blocks() * kQ8RowBlock;
    const std::int64_t hi = lo + kQ8RowBlock < plan.rows ? lo + kQ8RowBlock : plan.rows;
    alignas(32) float buffer[M][kQ8TileRows][kQ8Panel];
    for (std::int64_t i = lo; i < hi; i += kQ8TileRows) {
      const int rows = static_cast<int>(hi - i < kQ8TileRows ? hi - i : kQ8TileRows);
      const Q8Block* x[kQ8TileRows];
      for (int r = 0; r < rows; ++r) x[r] = in(i + r);
      for (int m = 0; m < M; ++m) dot(weights[m], first / 8, (count + 7) / 8, x, rows, buffer[m][0], kQ8Panel);
      for (int r = 0; r < rows; ++r) {
        float* sums[M];
        for (int m = 0; m < M; ++m) sums[m] = buffer[m][r];
        done(i + r, first, count, sums);
      }
    }
  }
};

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
