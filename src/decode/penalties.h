// Penalties: logits changed by how often their tokens have occurred in the answer, and by fixed biases (Sampling, LogitBias).
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/cell.h"
#include "decode/host_sampling.h"
#include "plumb/plumb.h"

namespace plumb::decode {

class Penalties final : public HostSamplingState {
 public:
  // Whether a request with these needs one at all.
  static bool wanted(const Sampling& sampling, const std::vector<LogitBias>& biases) { return counts(sampling) || !biases.empty(); }

  // `context` may be null and outlives it.
  Penalties(const CellContext* context, const Sampling& sampling, std::vector<LogitBias> biases);

  bool follows_tokens() const override { return counting_; }
  void accept(std::int32_t token) override;
  void shape(DrawRules& rules) const override;
  std::int64_t most_edits(std::int32_t unseen) const override;

 private:
  static bool counts(const Sampling& s) { return s.repetition_penalty != 1 || s.frequency_penalty != 0 || s.presence_penalty != 0; }

  const bool counting_;
  const float repetition_;
  const float frequency_;
  const float presence_;
  const std::vector<LogitBias> biases_;
  Cell<CellId::request_counts, std::map<std::int32_t, std::int32_t>> counts_;  // kept only where penalties need them
};

}  // namespace plumb::decode
