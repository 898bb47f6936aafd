// A step in flight: what it left for the host, or what went wrong.
#include "decode/executor.h"

namespace plumb::decode {

using device::Buffer;

Result<StepOutput> Submission::wait() const {
  PLUMB_TRY(completion_.wait());
  const auto r = static_cast<std::size_t>(ring_);
  const auto n = static_cast<std::size_t>(logit_rows_);
  StepOutput out;
  out.vocab_ = static_cast<std::size_t>(executor_->vocab_);
  out.tokens_ = {executor_->ring_tokens_[r].as<const std::int32_t>(), n};
  out.digests_ = {executor_->ring_digests_[r].as<const std::uint64_t>(), n};
  out.lengths_ = {executor_->ring_lengths_[r].as<const std::int32_t>(), executor_->ring_lengths_[r].bytes / 4};
  if (logits_) out.logits_ = {executor_->ring_logits_[r].as<const float>(), n * out.vocab_};
  return out;
}

// The launches of a half are its phases in order, without those that had no row.
std::int32_t Submission::faulted_row(const StepPlan& plan) const {
  const bool in_forward = !forward_ || !forward_.wait().ok();  // a sample half behind a failed forward repeats its fault
  const device::FaultWord& word = forward_ && in_forward ? forward_.fault() : completion_.fault();
  if (word.count == 0 || word.row < 0) return -1;
  const auto rows_of = [&](kernels::RowCount over) { return over == kernels::RowCount::rows ? plan.batch.rows.size() : plan.batch.logits.size(); };
  const auto& phases = executor_->program().phases;
  std::int32_t launch = 0;
  for (std::size_t i = in_forward ? 0 : executor_->sample_phase_; i < phases.size(); ++i) {
    if (rows_of(phases[i].over) == 0 || launch++ < word.launch) continue;
    const auto row = static_cast<std::size_t>(word.row);
    if (row >= rows_of(phases[i].over)) return -1;
    return phases[i].over == kernels::RowCount::rows ? word.row : plan.batch.logits[row].row;
  }
  return -1;
}

std::span<const std::byte> Submission::tap(std::size_t i) const {
  const Buffer& buffer = executor_->ring_taps_[static_cast<std::size_t>(ring_)][i];
  const Tap& tap = executor_->options_.taps[i];
  return {buffer.address, tap.row_bytes * static_cast<std::uint64_t>(tap.over == kernels::RowCount::rows ? rows_ : logit_rows_)};
}

}  // namespace plumb::decode
