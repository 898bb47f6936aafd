// gated_delta, row by row.
//
// A task is one head and up to kStateColumns columns of its state; it walks all rows of the batch, so a sequence's columns stay in
// the worker's cache while its prompt passes. Columns never meet: element j of `out` needs column j of the state alone, and each
// sum runs over the keys in order. So no bit depends on the tasks, the threads, or the rows of other sequences. A chunked form
// (a prompt as matrix products) would be faster for long prompts, but its sums depend on where the chunks begin.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// 64 columns of 128 keys are 32 KiB, a first-level cache; a head of 128 values is then two tasks. Tried and no faster in
// interleaved runs: 32 columns; four keys at a time over all columns, so that rows of the state are read whole.
inline constexpr int kStateColumns = 64;

// One head of one row. k and q are as given; their lengths are divided out of the sums instead of the vectors.
struct DeltaRow {
  const float* k;
  const float* q;
  int key_dim;
  std::int64_t stride;  // of the state, value_dim
  float forget;         // alpha
  float answer;         // alpha / |k|
  float move;           // beta / |k|
  float read;           // 1 / |q|
};

inline float inverse_length(const float* x, int n) {
  F32x8 squares[2] = {zero8(), zero8()};
  each8(0, n, [&](std::int64_t i, int lanes) {
    const F32x8 part = load_n(x + i, lanes);
    squares[i / 8 % 2] = mul_add(part, part, squares[i / 8 % 2]);
  });
  return 1.0F / std::sqrt(sum8(squares[0] + squares[1]) + kKeyNormEps);
}

// In double, as the gates are two numbers a head: what alpha loses here, a long text would raise to a high power.
inline DeltaRow delta_row(const GatedDeltaArgs& a, std::int64_t row, int head) {
  const std::int64_t at = row * a.heads + head;
  const auto decay = static_cast<double>(a.decay[at]);
  const double softplus = (decay > 0 ? decay : 0) + std::log1p(std::exp(-std::fabs(decay)));
  const double rate = a.rates ? static_cast<double>(a.rates[head]) : 1.0;
  const auto alpha = static_cast<float>(std::exp(-rate * softplus));
  const auto beta = static_cast<float>(1 / (1 + std::exp(-static_cast<double>(a.beta[at]))));
  const float* k = a.k.get() + at * a.key_dim;
  const float* q = a.q.get() + at * a.key_dim;
  const float inverse_k = inverse_length(k, a.key_dim);
  return {k, q, a.key_dim, a.value_dim, alpha, alpha * inverse_k, beta * inverse_k, inverse_length(q, a.key_dim)};
}

// D vectors of columns, the last of them with n lanes: the state from `s` on, `v` and `out` at the same column.
template <int D>
inline void update_columns(const DeltaRow& row, int n, const float* v, float* s, float* out) {
  const auto load = [n](const float* from, int d) { return d == D - 1 ? load_n(from + d * 8, n) : load8(from + d * 8); };
  const auto store = [n](float* to, int d, F32x8 x) { d == D - 1 ? store_n(to + d * 8, x, n) : store8(to + d * 8, x); };
  F32x8 move[D];
#pragma GCC unroll 8
  for (int d = 0; d < D; ++d) move[d] = zero8();
  for (int i = 0; i < row.key_dim; ++i) {
    const F32x8 k = splat(row.k[i]);
#pragma GCC unroll 8
    for (int d = 0; d < D; ++d) move[d] = mul_add(k, load(s + i * row.stride, d), move[d]);
  }
  F32x8 sum[D];
#pragma GCC unroll 8
  for (int d = 0; d < D; ++d) {
    move[d] = (load(v, d) - move[d] * splat(row.answer)) * splat(row.move);
    sum[d] = zero8();
  }
  const F32x8 forget = splat(row.forget);
  for (int i = 0; i < row.key_dim; ++i) {
    const F32x8 k = splat(row.k[i]);
    const F32x8 q = splat(row.q[i]);
    float* cells = s + i * row.stride;
#pragma GCC unroll 8
    for (int d = 0; d < D; ++d) {
      const F32x8 cell = mul_add(k, move[d], load(cells, d) * forget);
      store(cells, d, cell);
      sum[d] = mul_add(q, cell, sum[d]);
    }
  }
#pragma GCC unroll 8
  for (int d = 0; d < D; ++d) store(out, d, sum[d] * splat(row.read));
}

void gated_delta(const GatedDeltaArgs& a, device::Worker& w) {
  const int blocks = (a.value_dim + kStateColumns - 1) / kStateColumns;
  const std::int64_t tasks = std::int64_t{a.heads} * blocks;
  for (std::int64_t task = w.claim(); task < tasks; task = w.claim()) {
    const int head = static_cast<int>(task / blocks);
    const int first = static_cast<int>(task % blocks) * kStateColumns;
    const int last = first + kStateColumns < a.value_dim ? first + kStateColumns : a.value_dim;
    for (std::int64_t r = 0; r < a.rows; ++r) {
      const std::int64_t at = (r * a.heads + head) * a.value_dim;
      const std::int64_t sequence = a.sequences[r];
      const bool known = sequence >= 0 && sequence < a.sequence_count;
      const std::int64_t slot = known ? a.state_slots[sequence] : kNoStateSlot;
      if (slot < 0 || slot >= a.slots) {
        if (task == 0) w.index_in(known ? slot : sequence, known ? a.slots : a.sequence_count, r);  // once a row, not once a task
        std::memset(a.out.get() + at + first, 0, static_cast<std::size_t>(last - first) * 4);
        continue;
      }
      const DeltaRow row = delta_row(a, r, head);
      float* state = reinterpret_cast<float*>(a.state.get()) + (slot * a.heads + head) * a.key_dim * a.value_dim;
      int c = first;
      for (; c + 32 <= last; c += 32) update_columns<4>(row, 8, a.v.get() + at + c, state + c, a.out.get() + at + c);
      for (; c < last; c += 8) {
        update_columns<1>(row, last - c < 8 ? last - c : 8, a.v.get() + at + c, state + c, a.out.get() + at + c);
      }
    }
  }
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
