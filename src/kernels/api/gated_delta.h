// gated_delta: the gated delta rule, a linear-recurrent mixer. Yang, Kautz, Hatamizadeh, "Gated Delta Networks", arXiv 2412.06464,
// equation 10. For row t and each head, with the state S [key_dim][value_dim] of the row's sequence:
//   k' = k / sqrt(|k|^2 + eps),   q' = q / sqrt(|q|^2 + eps),   eps = kKeyNormEps,
//   S  = alpha S,                 alpha = exp(-rate * softplus(decay)),  in (0, 1]
//   S  = S + beta k' (v - S^T k')^T,                    beta = sigmoid(beta)
//   out = S^T q'.
// So the state first forgets by alpha, then what it answers to k' is moved by the share beta towards v; the answer to q' is read
// from the new state. `decay` and `beta` are the projections' outputs (biases added), before softplus and sigmoid. `rate` is
// exp(A_log) of the published checkpoints.
//
// Rows are applied in batch order, so the rows of one sequence must ascend in position. The state is rounded to float32 after
// each row: cutting a prompt into steps differently, or running other sequences beside it, changes no bit.
//
// The state of sequence s is slot state_slots[s]; it stands for exactly the rows that were run through it. The op never clears
// a slot: whoever hands one out zeroes or copies it before its first row. A sequence outside [0, sequences) or a slot outside
// [0, slots) is counted; its row's output is 0 and no state changes.
//
// REQUIRES of the batch: no two of its sequences share a slot.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/status.h"
#include "device/launch.h"
#include "kernels/api/ref.h"

namespace plumb::kernels {

inline constexpr std::int32_t kNoStateSlot = -1;
inline constexpr float kKeyNormEps = 1e-6F;       // of the released Gated DeltaNet code; keeps a zero key finite
inline constexpr std::int32_t kMaxStateDim = 512;  // of keys and of values; released models have 128 and 256

struct GatedDeltaArgs {
  static constexpr const char* kName = "gated_delta";
  Ref<float> out;                        // [rows][heads][value_dim]
  // f32 [slots][heads][key_dim][value_dim]. Bytes, as KV pages are: a slot that nobody holds may contain anything, so --diag
  // must not look for NaNs in it. A NaN in a slot that is read shows in `out`.
  Ref<std::byte> state;
  Ref<const float> q;                    // [rows][heads][key_dim]
  Ref<const float> k;                    // [rows][heads][key_dim]
  Ref<const float> v;                    // [rows][heads][value_dim]
  Ref<const float> decay;                // [rows][heads]
  Ref<const float> beta;                 // [rows][heads]
  Ref<const float> rates;                // [heads], each >= 0; optional: 1
  Ref<const std::int32_t> sequences;     // [rows]
  Ref<const std::int32_t> state_slots;   // [sequences], kNoStateSlot: none
  std::int32_t sequence_count = 0;
  std::int32_t slots = 0;
  std::int32_t heads = 0;
  std::int32_t key_dim = 0;
  std::int32_t value_dim = 0;
  std::int32_t rows = 0;
};

// Bytes of one slot of one layer.
inline std::uint64_t state_slot_bytes(std::int32_t heads, std::int32_t key_dim, std::int32_t value_dim) {
  return static_cast<std::uint64_t>(heads) * static_cast<std::uint64_t>(key_dim) * static_cast<std::uint64_t>(value_dim) * 4;
}

template <class A, class V>
  requires std::is_same_v<std::remove_const_t<A>, GatedDeltaArgs>
void visit_operands(A& a, V&& visit) {
  const auto rows = static_cast<std::uint64_t>(a.rows);
  const auto heads = static_cast<std::uint64_t>(a.heads);
  visit(OperandInfo{"out", Access::write, rows * heads * a.value_dim * 4}, a.out);
  visit(OperandInfo{"state", Access::read_write, static_cast<std::uint64_t>(a.slots) * state_slot_bytes(a.heads, a.key_dim, a.value_dim)},
        a.state);
  visit(OperandInfo{"q", Access::read, rows * heads * a.key_dim * 4}, a.q);
  visit(OperandInfo{"k", Access::read, rows * heads * a.key_dim * 4}, a.k);
  visit(OperandInfo{"v", Access::read, rows * heads * a.value_dim * 4}, a.v);
  visit(OperandInfo{"decay", Access::read, rows * heads * 4}, a.decay);
  visit(OperandInfo{"beta", Access::read, rows * heads * 4}, a.beta);
  if (a.rates) visit(OperandInfo{"rates", Access::read, heads * 4}, a.rates);
  visit(OperandInfo{"sequences", Access::read, rows * 4}, a.sequences);
  visit(OperandInfo{"state_slots", Access::read, static_cast<std::uint64_t>(a.sequence_count) * 4}, a.state_slots);
}
Status check(const GatedDeltaArgs& a);
// Which rows share a sequence is not in the args: counted as if all did, one state read and written. The executor adds
// gated_delta_state_cost for the other sequences of the step.
device::Cost cost(const GatedDeltaArgs& a);
// What the states of `sequences` sequences add: each read and written once.
device::Cost gated_delta_state_cost(const GatedDeltaArgs& a, std::uint64_t sequences);

}  // namespace plumb::kernels
