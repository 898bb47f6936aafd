// A step as values: what is to be computed (StepPlan) and what came of it (StepOutput).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/api/kv_view.h"
#include "kernels/api/row_batch.h"

namespace plumb::decode {

// One entry of a page table changes before the step's forward.
struct TableWrite {
  std::int32_t layer_class = 0;
  std::int32_t sequence = 0;
  std::int32_t index = 0;
  std::int32_t page = kernels::kNoPage;
};

// A page is zeroed in every layer of its class before the forward: rows of it will be read before they are written, and what
// they hold must not matter (the cold end of a window rebuild).
struct PageFill {
  std::int32_t layer_class = 0;
  std::int32_t page = 0;
};

// Everything a step needs, decided before it is launched. Plain data.
struct StepPlan {
  std::uint64_t id = 0;
  kernels::RowBatch batch;
  std::vector<TableWrite> table_writes;
  std::vector<PageFill> zero_pages;
  bool want_logits = false;  // keep the logits of every logit row for the host
  bool timing = false;

  void clear() {
    batch.clear();
    table_writes.clear();
    zero_pages.clear();
    want_logits = false;
  }
};

// What a settled step left for the host. Only an Executor makes one, and only from a successful wait: the output of a failed
// step cannot be constructed, so it can never advance a length, reach a client or enter the prefix tree.
// The spans stay valid until the executor's ring comes round (ExecutorOptions::depth further steps).
class StepOutput {
 public:
  // One token per logit row of the plan.
  std::span<const std::int32_t> tokens() const { return tokens_; }
  // A 64-bit digest of the bits of each logit row.
  std::span<const std::uint64_t> digests() const { return digests_; }
  // [vocab]; empty unless the plan wanted logits.
  std::span<const float> logits(std::size_t logit_row) const {
    return logits_.empty() ? logits_ : logits_.subspan(logit_row * vocab_, vocab_);
  }

 private:
  friend class Submission;
  StepOutput() = default;
  std::span<const std::int32_t> tokens_;
  std::span<const std::uint64_t> digests_;
  std::span<const float> logits_;
  std::size_t vocab_ = 0;
};

}  // namespace plumb::decode
