// moe_glu and moe_down: the products of a mixture of experts. Each expert is one product over the rows that chose it, so its
// weights are decoded once a step; all experts' tasks are one list.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// The pairs of one expert, from moe_group.
struct ExpertPairs {
  const std::int32_t* order;
  std::int64_t count;
};

// Offsets come from another kernel: a range outside of [0, pairs) is counted and taken as empty.
inline ExpertPairs pairs_of(const std::int32_t* offsets, const std::int32_t* order, std::int64_t expert, std::int64_t pairs,
                            device::Worker& w) {
  const std::int64_t lo = offsets[expert];
  const std::int64_t hi = offsets[expert + 1];
  if (lo < 0 || hi < lo || hi > pairs) {
    w.index_in(hi < lo || hi > pairs ? hi : lo, pairs + 1);
    return {order, 0};
  }
  return {order + lo, hi - lo};
}

// Runs every expert's product of M matrices. `run(e, plan, task, in, done)` runs a task with expert e's weights; `in(pair)` and
// `done(e, pair, ...)` as in run_product, by pair.
template <int M, class Path, class Run, class In, class Done>
inline void run_experts(const Path& path, const WeightView& shape, const std::int32_t* offsets, const std::int32_t* order, std::int64_t pairs,
                        Run&& run, In&& in, Done&& done, device::Worker& w) {
  std::int64_t task = w.claim();
  std::int64_t base = 0;  // tasks of the experts before e
  for (std::int64_t e = 0; e < shape.experts; ++e) {
    const ExpertPairs chosen = pairs_of(offsets, order, e, pairs, w);
    const auto plan = path.plan(shape.rows, shape.cols, chosen.count, M, w.count());
    const std::int64_t tasks = plan.tasks();
    for (; task < base + tasks; task = w.claim()) {
      // A bad pair reads row 0 and its result is dropped.
      const auto pair_in = [&](std::int64_t i) { return in(w.index_in(chosen.order[i], pairs)); };
      const auto pair_done = [&](std::int64_t i, std::int64_t first, int count, float* const* sums) {
        if (chosen.order[i] >= 0 && chosen.order[i] < pairs) done(e, chosen.order[i], first, count, sums);
      };
      run(e, plan, task - base, pair_in, pair_done);
    }
    base += tasks;
  }
}

template <class Path>
inline void moe_glu_with(const Path& path, const MoeGluArgs& a, device::Worker& w) {
  const auto run = [&](std::int64_t e, const auto& plan, std::int64_t task, auto& in, auto& done) {
    const typename Path::Weights weights[2] = {{a.gate, e}, {a.up, e}};
    path.run(plan, task, weights, in, done, w);
  };
  const auto in = [&](std::int64_t pair) { return Path::input(a, pair / a.top_k, a.gate.cols); };
  const auto done = [&](std::int64_t e, std::int64_t pair, std::int64_t first, int count, float* const* sums) {
    if (a.gate_bias) {
      const std::int64_t bias = e * a.bias_expert_stride + first * a.bias_stride;
      for (int i = 0; i < count; ++i) {
        sums[0][i] += a.gate_bias[bias + i * a.bias_stride];
        sums[1][i] += a.up_bias[bias + i * a.bias_stride];
      }
    }
    float* out = a.out.get() + pair * a.gate.rows + first;
    each8(0, count, [&](std::int64_t i, int n) {
      store_n(out + i, glu8(a.spec, load_n(sums[0] + i, n), load_n(sums[1] + i, n)), n);
    });
  };
  run_experts<2>(path, a.gate, a.offsets.get(), a.order.get(), std::int64_t{a.rows} * a.top_k, run, in, done, w);
}

template <class Path>
inline void moe_down_with(const Path& path, const MoeDownArgs& a, device::Worker& w) {
  const auto run = [&](std::int64_t e, const auto& plan, std::int64_t task, auto& in, auto& done) {
    const typename Path::Weights weights[1] = {{a.down, e}};
    path.run(plan, task, weights, in, done, w);
  };
  const auto in = [&](std::int64_t pair) { return Path::input(a, pair, a.down.cols); };
  const auto done = [&](std::int64_t e, std::int64_t pair, std::int64_t first, int count, float* const* sums) {
    const float* bias = a.bias ? a.bias.get() + e * a.down.rows + first : nullptr;
    float* out = a.out.get() + pair * a.down.rows + first;
    each8(0, count, [&](std::int64_t i, int n) {
      F32x8 y = load_n(sums[0] + i, n);
      if (bias != nullptr) y = y + load_n(bias + i, n);
      store_n(out + i, y, n);
    });
  };
  run_experts<1>(path, a.down, a.offsets.get(), a.order.get(), std::int64_t{a.rows} * a.top_k, run, in, done, w);
}

template <WeightFormat F>
void moe_glu(const MoeGluArgs& a, device::Worker& w) {
  moe_glu_with(F32Path{kRowOps<F>}, a, w);
}
template <WeightFormat F>
void q8_moe_glu(const MoeGluArgs& a, device::Worker& w) {
  moe_glu_with(Q8Path{q8_dot<F>}, a, w);
}
template <WeightFormat F>
void moe_down(const MoeDownArgs& a, device::Worker& w) {
  moe_down_with(F32Path{kRowOps<F>}, a, w);
}
template <WeightFormat F>
void q8_moe_down(const MoeDownArgs& a, device::Worker& w) {
  moe_down_with(Q8Path{q8_dot<F>}, a, w);
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
