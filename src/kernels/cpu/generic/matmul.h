// matmul and embed: what reads a plain weight matrix.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

template <class Path>
inline void matmul_with(const Path& path, const MatmulArgs& a, device::Worker& w) {
  const std::int64_t outputs = a.weight.rows;
  const auto plan = path.plan(outputs, a.weight.cols, a.rows, 1, w.count());
  const typename Path::Weights weights[1] = {{a.weight, 0}};
  const float* bias = a.bias.get();
  const auto done = [&](std::int64_t r, std::int64_t first, int count, float* const* sums) {
    float* out = a.out.get() + r * outputs + first;
    each8(0, count, [&](std::int64_t i, int n) {
      F32x8 y = load_n(sums[0] + i, n);
      if (bias != nullptr) y = y + load_n(bias + first + i, n);
      if (a.accumulate != 0) y = y + load_n(out + i, n);
      store_n(out + i, y, n);
    });
  };
  const auto in = [&](std::int64_t r) { return Path::input(a, r, a.weight.cols); };
  const std::int64_t tasks = plan.tasks();
  TaskOrder order(w, tasks, a.rows);
  for (std::int64_t task = order.next(); task < tasks; task = order.next()) {
    path.run(plan, task, weights, in, done, w);
  }
}
template <WeightFormat F>
void matmul(const MatmulArgs& a, device::Worker& w) {
  matmul_with(F32Path{kRowOps<F>}, a, w);
}
template <WeightFormat F>
void q8_matmul(const MatmulArgs& a, device::Worker& w) {
  matmul_with(Q8Path{q8_dot<F>}, a, w);
}

template <WeightFormat F>
void embed(const EmbedArgs& a, device::Worker& w) {
  const WeightRows table(a.table, 0);
  const auto [lo, hi] = w.share(a.rows);
  for (std::int64_t r = lo; r < hi; ++r) {
    std::int64_t token = a.tokens[r];
    if (const std::int32_t source = a.sources[r]; source >= 0) {
      // A clamped cell gives a clamped token: the step has failed already.
      const std::int64_t cell = w.index_in(source, a.relay_cells > 0 ? a.relay_cells : 1, r);
      token = a.relay_cells > 0 ? a.relay[cell] : kInvalidToken;
    }
    token = w.index_in(token, a.table.rows, r);
    float* out = a.out.get() + r * a.table.cols;
    const int whole = a.table.cols / 8 * 8;
    if (whole == a.table.cols) {
      decode_panel<F>(table, token, 1, out, whole);
      apply_factor(table.factor, out, whole);
      continue;
    }
    // A tail is decoded to a whole vector, which the row has no room for.
    if constexpr (Codec<F>::kUnit == 8) {
      WeightRows head = table;
      head.cols = whole;
      decode_panel<F>(head, token, 1, out, whole);
      const std::byte* tail = table.row(token) + std::int64_t{whole / 8} * Codec<F>::kBytes;
      store_first(out + whole, decode_tail<F>(tail, a.table.cols - whole), a.table.cols - whole);
      apply_factor(table.factor, out, a.table.cols);
    }
  }
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
