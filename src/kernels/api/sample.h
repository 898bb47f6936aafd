// sample: one token per row of logits, on the device side of the queue, so that a chained loop needs no host round trip.
//
// Greedy (temperature 0): the largest logit, ties to the lowest id; no random number is drawn. Otherwise, in this order:
// temperature, top_k, top_p (the smallest set of the tokens still there whose share of their probability reaches top_p), min_p
// (at least min_p times the largest probability), renormalise, draw: the first token, by id, at which the running sum of
// probabilities exceeds the random number. The draw is a pure function of (logits, seed, choice, position): one number of the
// counter-based generator (base/counter_rng.h) at (position, choice) under the key seed, so it does not depend on what else
// runs, or in which order.
//
// A token whose logit is kBannedLogit (mask_logits) is never drawn, whatever the temperature.
//
// The token goes to out[i], and to the relay cell relay_cells_of[i] (when >= 0) where the next step's embed reads it. When an
// earlier launch of the step has counted a fault, a logit is not finite, or all are banned, kInvalidToken goes to both.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/status.h"
#include "device/launch.h"
#include "kernels/api/mask_logits.h"
#include "kernels/api/ref.h"

namespace plumb::kernels {

inline constexpr std::int32_t kInvalidToken = -1;

// The sampler keeps a partial sum for every 64 tokens in a worker's scratch; no released vocabulary reaches 2^19.
inline constexpr std::int32_t kMaxVocab = 1 << 22;

// Parameters of one row of logits. Plain values, uploaded with the batch.
struct SampleParams {
  float temperature = 0;       // 0: greedy
  float top_p = 1;             // (0, 1]; 1: off
  float min_p = 0;             // [0, 1); 0: off
  std::int32_t top_k = 0;      // 0: off
  std::uint64_t seed = 0;
  std::int32_t choice = 0;     // which of n answers to one prompt
  std::int32_t position = 0;   // absolute position of the token being drawn
  bool operator==(const SampleParams&) const = default;
};

struct SampleArgs {
  static constexpr const char* kName = "sample";
  Ref<std::int32_t> out;                    // [rows]
  Ref<std::int32_t> relay;                  // [relay_cells]; absent when there are none
  Ref<const float> logits;                  // [rows][vocab]
  Ref<const SampleParams> params;           // [rows]
  Ref<const std::int32_t> relay_cells_of;   // [rows]; -1: none
  std::int32_t relay_cells = 0;
  std::int32_t vocab = 0;
  std::int32_t rows = 0;
};

template <class A, class V>
  requires std::is_same_v<std::remove_const_t<A>, SampleArgs>
void visit_operands(A& a, V&& visit) {
  const auto rows = static_cast<std::uint64_t>(a.rows);
  visit(OperandInfo{"out", Access::write, rows * 4}, a.out);
  if (a.relay) visit(OperandInfo{"relay", Access::read_write, static_cast<std::uint64_t>(a.relay_cells) * 4}, a.relay);
  visit(OperandInfo{"logits", Access::read, rows * a.vocab * 4}, a.logits);
  visit(OperandInfo{"params", Access::read, rows * sizeof(SampleParams)}, a.params);
  visit(OperandInfo{"relay_cells_of", Access::read, rows * 4}, a.relay_cells_of);
}
Status check(const SampleArgs& a);
device::Cost cost(const SampleArgs& a);

}  // namespace plumb::kernels
