// How a matrix product is cut into tasks for the workers, and how one task runs. The cut never touches the sums (dot.h).
//
// Few rows: each task decodes some weight rows in registers and multiplies as it goes. Many rows: each task decodes a panel of
// weight rows into the worker's scratch once, then multiplies a block of activation rows by it, tile by tile.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// Half of a 512 KiB second-level cache; the activation tiles and the sums want the rest.
inline constexpr std::int64_t kPanelFloats = 64 * 1024;
// Largest panel: its sums of one row tile stay in the first-level cache.
inline constexpr int kMaxPanelRows = 240;
// Rows that share one decoding of a panel. At 128 the decoding is a few percent of the multiplication, and a block is small
// enough to split a prompt between workers.
inline constexpr int kRowBlock = 128;
// Weight rows of a task without a panel: a few tens of KiB of weights, long against the cost of claiming a task.
inline constexpr int kMaxDirectRows = 64;

// Up to this many rows of activations a product waits for its weights more than for its arithmetic.
inline constexpr std::int64_t kStreamedRows = 8;

// The tasks of an op for one worker, one after the other. With few rows they are taken by runs, so that weights stream from memory; with
// many they are claimed, as the weights of a task come from memory once and then from a cache.
class TaskOrder {
 public:
  TaskOrder(device::Worker& w, std::int64_t tasks, std::int64_t rows)
      : worker_(w), tasks_(tasks), runs_(rows <= kStreamedRows && tasks <= device::TaskRuns::kMaxTasks) {}
  // The next task; where there is none, a number beyond all of them.
  std::int64_t next() {
    if (!runs_) return worker_.claim();
    const std::int64_t task = worker_.take(tasks_);
    return task == device::TaskRuns::kNone ? tasks_ : task;
  }

 private:
  device::Worker& worker_;
  std::int64_t tasks_;
  bool runs_;
};

struct ProductPlan {
  bool direct;         // weights decoded in registers, again for every kDirectRows rows
  int panel;           // weight rows of a task
  int stride;          // floats of a decoded row
  std::int64_t outputs;
  std::int64_t rows;

  // `matrices` are multiplied together (2: gate and up).
  ProductPlan(std::int64_t outputs_, int cols, std::int64_t rows_, int matrices, int workers)
      : stride((cols + 7) / 8 * 8), outputs(outputs_), rows(rows_) {
    const std::int64_t fits = kPanelFloats / (std::int64_t{stride} * matrices);
    direct = rows <= kDirectRows || fits < kTileOutputs;
    // Several tasks for each worker, so that one that was interrupted does not keep the others waiting for long.
    const std::int64_t even = (outputs / (4 * workers) + 7) / 8 * 8;
    const std::int64_t most = direct ? kMaxDirectRows : fits < kMaxPanelRows ? fits : kMaxPanelRows;
    panel = static_cast<int>(even < most ? (even < 8 ? 8 : even) : most);
    if (!direct && panel > most) panel = static_cast<int>(most);
  }

  std::int64_t row_blocks() const { return direct ? 1 : (rows + kRowBlock - 1) / kRowBlock; }
  std::int64_t tasks() const { return rows == 0 ? 0 : (outputs + panel - 1) / panel * row_blocks(); }
  // Row blocks of one panel are neighbours in the numbering, so workers meet in the same weights.
  std::int64_t first_output(std::int64_t task) const { return task / row_blocks() * panel; }
};

// Runs task `task` of the plan. `in(i)` is activation row i; `done(i, first, count, sums)` gets the `count` sums of row i from
// output `first` on, sums[m] for matrix m, which it may change.
template <int M, class In, class Done>
inline void run_product(const RowOps& ops, const ProductPlan& plan, std::int64_t task, const WeightRows (&weights)[M], In&& in,
                        Done&& done, device::Worker& worker) {
  const std::int64_t first = plan.first_output(task);
  const int count = static_cast<int>(plan.outputs - first < plan.panel ? plan.outputs - first : plan.panel);
  float* sums[M];
  if (plan.direct) {
    float buffer[M][kDirectRows][kMaxDirectRows];
    for (std::int64_t i = 0; i < plan.rows; i += kDirectRows) {
      const int rows = static_cast<int>(plan.rows - i < kDirectRows ? plan.rows - i : kDirectRows);
      const float* x[kDirectRows];
      for (int r = 0; r < rows; ++r) x[r] = in(i + r);
      for (int m = 0; m < M; ++m) ops.dot(weights[m], first, count, x, rows, buffer[m][0], kMaxDirectRows);
      for (int r = 0; r < rows; ++r) {
        for (int m = 0; m < M; ++m) {
          sums[m] = buffer[m][r];
          apply_factor(weights[m].factor, sums[m], count);
        }
        done(i + r, first, count, sums);
      }
    }
    return;
  }
  static_assert((kPanelFloats + std::int64_t{2} * kTileRows * kMaxPanelRows) * 4 <= std::int64_t{device::kWorkerScratchBytes});
  static_assert(M <= 2);
  float* panel[M];
  float* tile_sums_of[M];
  float* free = worker.scratch_as<float>();
  for (int m = 0; m < M; ++m) {
    panel[m] = free;
    free += std::int64_t{plan.panel} * plan.stride;
    ops.decode(weights[m], first, count, panel[m], plan.stride);
  }
  for (int m = 0; m < M; ++m) {
    tile_sums_of[m] = free;
    free += kTileRows * plan.panel;
  }
  const std::int64_t lo = task % plan.row_blocks() * kRowBlock;
  const std::int64_t hi = lo + kRowBlock < plan.rows ? lo + kRowBlock : plan.rows;
  for (std::int64_t i = lo; i < hi; i += kTileRows) {
    const int rows = static_cast<int>(hi - i < kTileRows ? hi - i : kTileRows);
    const float* x[kTileRows];
    for (int r = 0; r < rows; ++r) x[r] = in(i + r);
    for (int m = 0; m < M; ++m) {
      dot_panel(x, rows, panel[m], plan.stride, count, weights[m].cols, tile_sums_of[m], plan.panel);
    }
    for (int r = 0; r < rows; ++r) {
      for (int m = 0; m < M; ++m) {
        sums[m] = tile_sums_of[m] + r * plan.panel;
        apply_factor(weights[m].factor, sums[m], count);
      }
      done(i + r, first, count, sums);
    }
  }
}

// The f32 path of the ops that multiply (q8_product.h has the other): what they need to know of activations and weights.
struct F32Path {
  using Weights = WeightRows;
  const RowOps& ops;

  ProductPlan plan(std::int64_t outputs, int cols, std::int64_t rows, int matrices, int workers) const {
    return {outputs, cols, rows, matrices, workers};
  }
  // Row i of the activations of an op.
  template <class Args>
  static const float* input(const Args& a, std::int64_t i, std::int64_t cols) {
    return a.in.get() + i * cols;
  }
  template <int M, class In, class Done>
  void run(const ProductPlan& plan, std::int64_t task, const WeightRows (&weights)[M], In&& in, Done&& done,
           device::Worker& worker) const {
    run_product(ops, plan, task, weights, in, done, worker);
  }
};

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
