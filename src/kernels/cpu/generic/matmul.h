// matmul and embed: what reads a plain weight matrix.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

template <WeightFormat F>
void matmul(const MatmulArgs& a, device::Worker& w) {
  const std::int64_t outputs = a.weight.rows;
  const std::int64_t inputs = a.weight.cols;
  const ProductPlan plan(outputs, a.weight.cols, a.rows, 1, w.count());
  const WeightRows<F> weights[1] = {{a.weight, 0}};
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
  const auto in = [&](std::int64_t r) { return a.in.get() + r * inputs; };
  for (std::int64_t task = w.claim(); task < plan.tasks(); task = w.claim()) run_product<F>(plan, task, weights, in, done, w);
}

template <WeightFormat F>
void embed(const EmbedArgs& a, device::Worker& w) {
  const WeightRows<F> table(a.table, 0);
  const auto [lo, hi] = w.share(a.rows);
  for (std::int64_t r = lo; r < hi; ++r) {
    std::int64_t token = a.tokens[r];
    if (const std::int32_t source = a.sources[r]; source >= 0) {
      // A clamped cell gives a clamped token: the step has failed already.
      const std::int64_t cell = w.index_in(source, a.relay_cells > 0 ? a.relay_cells : 1);
      token = a.relay_cells > 0 ? a.relay[cell] : kInvalidToken;
    }
    token = w.index_in(token, a.table.rows);
    float* out = a.out.get() + r * a.table.cols;
    using C = Codec<F>;
    const int units = a.table.cols / C::kUnit;
    for (int u = 0; u < units; ++u) {
      F32x8 values[C::kUnit / 8];
      C::decode(table.row(token) + std::int64_t{u} * C::kBytes, table.scale_row(token) + u, values);
      for (int i = 0; i < C::kUnit / 8; ++i) store8(out + u * C::kUnit + i * 8, values[i]);
    }
    if constexpr (C::kUnit == 8) {
      if (const int n = a.table.cols % 8; n != 0) {
        store_first(out + a.table.cols - n, decode_tail<F>(table.row(token) + std::int64_t{units} * C::kBytes, n), n);
      }
    }
  }
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
