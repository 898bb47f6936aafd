// StepTrace: digests of every phase's output for every position of one request, to find where two runs part.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "decode/outputs.h"
#include "serve/engine_impl.h"

namespace plumb::conformance {

// The first output that differs: everything it was computed from was equal in both runs.
struct Divergence {
  std::int32_t position = 0;
  std::int16_t layer = -1;
  std::string where;  // "layer 3 matmul out -> q"
  std::string to_string() const;
};

class StepTrace final : public SchedulerWatch {
 public:
  // REQUIRES: the engine was opened with trace_steps.
  StepTrace(const Engine::Impl& engine, RequestId request);

  void ran(const decode::StepTicket& ticket, const decode::Submission& submission) override;

  // By position, then in the order of the program: outputs that both runs have, at positions that both computed. nullopt when
  // all of them are equal.
  static std::optional<Divergence> first_difference(const StepTrace& a, const StepTrace& b);
  std::size_t positions() const { return rows_.size(); }

 private:
  const Engine::Impl& engine_;
  const RequestId request_;
  std::map<std::int32_t, std::vector<std::uint64_t>> rows_;  // position -> digest by output; 0: not computed there
};

}  // namespace plumb::conformance
