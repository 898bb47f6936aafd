// moe_glu and moe_down: the products of a mixture of experts. Each expert is one product over the rows that chose it, so its
// weights are decoded once a step; all experts' tasks are one list.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// The pairs of one expert, from moe_group.
struct ExpertPairs {
  const std::int32_t* order;
  std::int64_t count;
  bool bad;  // offsets come from another kernel: a range outside of [0, pairs) is taken as empty
};

inline ExpertPairs pairs_of(const std::int32_t* offsets, const std::int32_t* order, std::int64_t expert, std::int64_t pairs) {
  const std::int64_t lo = offsets[expert];
  const std::int64_t hi = offsets[expert + 1];
  if (lo < 0 || hi < lo || hi > pairs) return {order, 0, true};
  return {order + lo, hi - lo, false};
}

// Runs every expert's product of M matrices for `rows` rows of activations, which make `pairs` pairs with the experts they chose.
// `run(e, plan, task, in, done)` runs a task with expert e's weights; `in(pair)` and `done(e, pair, ...)` as in run_product, by pair.
template <int M, class Path, class Run, class In, class Done>
inline void run_experts(const Path& path, const WeightView& shape, const std::int32_t* offsets, const std::int32_t* order, std::int64_t rows,
                        std::int64_t pairs, Run&& run, In&& in, Done&& done, device::Worker& w) {
  const auto chosen_of = [&](std::int64_t e) { return pairs_of(offsets, order, e, pairs); };
  const auto plan_of = [&](const ExpertPairs& chosen) { return path.plan(shape.rows, shape.cols, chosen.count, M, w.count()); };
  std::int64_t all = 0;
  for (std::int64_t e = 0; e < shape.experts; ++e) {
    const ExpertPairs chosen = chosen_of(e);
    if (chosen.bad) {
      const std::int64_t lo = offsets[e];
      const std::int64_t hi = offsets[e + 1];
      w.report(lo < 0 ? lo : hi > pairs ? hi : hi - lo, pairs + 1, device::FaultKind::bad_index);
    }
    all += plan_of(chosen).tasks();
  }
  std::int64_t e = 0;
  std::int64_t base = 0;  // tasks of the experts before e
  TaskOrder mine(w, all, rows);
  for (std::int64_t task = mine.next(); task < all; task = mine.next()) {
    if (task < base) e = base = 0;  // taken from the end of another worker's run
    ExpertPairs chosen = chosen_of(e);
    auto plan = plan_of(chosen);
    while (task >= base + plan.tasks()) {
      base += plan.tasks();
      chosen = chosen_of(++e);
      plan = plan_of(chosen);
    }
    // A bad pair reads row 0 and its result is dropped.
    const auto pair_in = [&](std::int64_t i) { return in(w.index_in(chosen.order[i], pairs)); };
    const auto pair_done = [&](std::int64_t i, std::int64_t first, int count, float* const* sums) {
      if (chosen.order[i] >= 0 && chosen.order[i] < pairs) done(e, chosen.order[i], first, count, sums);
    };
    run(e, plan, task - base, pair_in, pair_done);
  }
}

template <class Path>
inline void moe_glu_with(const Path& path, const MoeGluArgs& a, device::Worker& w) {
  const auto run = [&](std::int64_t e, const auto& plan, std::int64_t task, auto& in, auto& done) {
    const typename Path::Weights weights[2] = {{a.gate, e}, {a.up, e}};
    if (a.gate_bias) {  // cold, and needed when the sums are there
      const std::int64_t bias = e * a.bias_expert_stride + plan.first_output(task) * a.bias_stride;
      ask_for_lines<1>(a.gate_bias.get() + bias, plan.panel * a.bias_stride * 4);
      ask_for_lines<1>(a.up_bias.get() + bias, plan.panel * a.bias_stride * 4);
    }
    path.run(plan, task, weights, in, done, w);
  };
  const auto in = [&](std::int64_t pair) { return Path::input(a, pair / a.top_k, a.gate.cols); };
  const auto done = [&](std::int64_t e, std::int64_t pair, std::int64_t first, int count, float* const* sums) {
    float* out = a.out.get() + pair * a.gate.rows + first;
    if (a.gate_bias && a.bias_stride != 1) {
      const std::int64_t bias = e * a.bias_expert_stride + first * a.bias_stride;
      for (int i = 0; i < count; ++i) {
        sums[0][i] += a.gate_bias[bias + i * a.bias_stride];
        sums[1][i] += a.up_bias[bias + i * a.bias_stride];
      }
    }
    const bool vectors = a.gate_bias && a.bias_stride == 1;
    const float* gate_bias = vectors ? a.gate_bias.get() + e * a.bias_expert_stride + first : nullptr;
    const float* up_bias = vectors ? a.up_bias.get() + e * a.bias_expert_stride + first : nullptr;
    each8(0, count, [&](std::int64_t i, int n) {
      F32x8 gate = load_n(sums[0] + i, n);
      F32x8 up = load_n(sums[1] + i, n);
      if (vectors) {
        gate = gate + load_n(gate_bias + i, n);
        up = up + load_n(up_bias + i, n);
      }
      store_n(out + i, glu8(a.spec, gate, up), n);
    });
  };
  run_experts<2>(path, a.gate, a.offsets.get(), a.order.get(), a.rows, std::int64_t{a.rows} * a.top_k, run, in, done, w);
}

template <class Path>
inline void moe_down_with(const Path& path, const MoeDownArgs& a, device::Worker& w) {
  const auto run = [&](std::int64_t e, const auto& plan, std::int64_t task, auto& in, auto& done) {
    const typename Path::Weights weights[1] = {{a.down, e}};
    if (a.bias) ask_for_lines<1>(a.bias.get() + e * a.down.rows + plan.first_output(task), plan.panel * 4);
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
  run_experts<1>(path, a.down, a.offsets.get(), a.order.get(), a.rows, std::int64_t{a.rows} * a.top_k, run, in, done, w);
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
