// How a product of q8 activations with packed weights is cut into tasks, and how one task runs. Included after the set's q8_dot.h.
//
// One order for all row counts: an output adds its blocks one after the other, in rising k, in one lane of one accumulator. So
// decode, small batches and prefill give the same bits, and so does any number of threads.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// Outputs of a task: 34 KiB of 4-bit weights of 1,024 columns, which stay in the second-level cache while the rows of a prompt
// pass over them, and take a microsecond or two to stream when there is one row.
inline constexpr int kQ8Panel = 64;
// The same where rows are few and weights stream: nothing has to stay in a cache, and the end of a task, where nothing is asked for, is felt.
inline constexpr int kQ8StreamedPanel = 256;
// Rows of a task, so that a long prompt over a small matrix still has work for every worker.
inline constexpr int kQ8RowBlock = 128;

// The cut into tasks. As ProductPlan (product.h), without a decoded panel.
struct Q8Plan {
  int panel;  // outputs of a task, a multiple of 8
  std::int64_t outputs;
  std::int64_t rows;

  Q8Plan(std::int64_t outputs_, std::int64_t rows_, int workers) : outputs(outputs_), rows(rows_) {
    const std::int64_t even = (outputs / (4 * workers) + 7) / 8 * 8;
    const std::int64_t most = rows <= kReadAheadRows ? kQ8StreamedPanel : kQ8Panel;
    panel = static_cast<int>(even < 8 ? 8 : even < most ? even : most);
  }
  std::int64_t row_blocks() const { return (rows + kQ8RowBlock - 1) / kQ8RowBlock; }
  std::int64_t tasks() const { return (outputs + panel - 1) / panel * row_blocks(); }
  std::int64_t first_output(std::int64_t task) const { return task / row_blocks() * panel; }
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
    const std::int64_t first = plan.first_output(task);
    const int count = static_cast<int>(plan.outputs - first < plan.panel ? plan.outputs - first : plan.panel);
    const std::int64_t lo = task % plan.row_blocks() * kQ8RowBlock;
    const std::int64_t hi = lo + kQ8RowBlock < plan.rows ? lo + kQ8RowBlock : plan.rows;
    static_assert(kReadAheadRows * kQ8StreamedPanel <= kQ8TileRows * kQ8Panel);  // few rows of many sums, or many of few
    alignas(32) float buffer[M][kQ8TileRows * kQ8Panel];
    for (std::int64_t i = lo; i < hi; i += kQ8TileRows) {
      const int rows = static_cast<int>(hi - i < kQ8TileRows ? hi - i : kQ8TileRows);
      const Q8Block* x[kQ8TileRows];
      for (int r = 0; r < rows; ++r) x[r] = in(i + r);
      const int groups = (count + 7) / 8;
      // Matrices that are multiplied together take turns in memory (api/pack.h), and are walked so where memory is what is waited for.
      const int turn = M > 1 && rows <= kReadAheadRows ? 1 : groups;
      for (int g = 0; g < groups; g += turn) {
        for (int m = 0; m < M; ++m) dot(weights[m], first / 8 + g, turn, x, rows, buffer[m] + 8 * g, plan.panel);
      }
      for (int r = 0; r < rows; ++r) {
        float* sums[M];
        for (int m = 0; m < M; ++m) {
          sums[m] = buffer[m] + r * plan.panel;
          apply_factor(weights[m].factor, sums[m], count);
        }
        done(i + r, first, count, sums);
      }
    }
  }
};

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
