#include "serve/conformance/step_trace.h"

#include <algorithm>

#include "base/hash.h"

namespace plumb::conformance {

std::string Divergence::to_string() const { return "position " + std::to_string(position) + ", " + where; }

StepTrace::StepTrace(const Engine::Impl& engine, RequestId request) : engine_(engine), request_(request) {}

void StepTrace::ran(const decode::StepTicket& ticket, const decode::Submission& submission) {
  const auto& outputs = engine_.outputs();
  const auto& batch = ticket.plan().batch;
  for (const decode::Share& share : ticket.plan().shares) {
    if (share.owner != request_) continue;
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      const decode::Tap& tap = outputs[o].tap;
      const auto bytes = submission.tap(o);
      const auto keep = [&](std::int32_t batch_row, std::int32_t tap_row) {
        const kernels::Row& row = batch.rows[static_cast<std::size_t>(batch_row)];
        // Rows that rebuild a window are not what they seem until the window is whole.
        if (row.write_classes != kernels::Row{}.write_classes) return;
        auto& digests = rows_[row.position.value];
        digests.resize(outputs.size());
        digests[o] = hash64(bytes.subspan(static_cast<std::size_t>(tap_row) * tap.row_bytes, tap.row_bytes)) | 1U;
      };
      if (tap.over == kernels::RowCount::rows) {
        for (std::int32_t r = share.first_row; r < share.first_row + share.rows; ++r) keep(r, r);
      } else {
        for (std::int32_t l = share.first_logit; l < share.first_logit + share.logits; ++l) keep(batch.logits[static_cast<std::size_t>(l)].row, l);
      }
    }
  }
}

std::optional<Divergence> StepTrace::first_difference(const StepTrace& a, const StepTrace& b) {
  const auto& ours = a.engine_.outputs();
  const auto& theirs = b.engine_.outputs();
  std::map<std::string, std::size_t> by_name;
  for (std::size_t i = 0; i < theirs.size(); ++i) by_name.emplace(theirs[i].name(), i);
  for (const auto& [position, digests] : a.rows_) {
    const auto other = b.rows_.find(position);
    if (other == b.rows_.end()) continue;
    for (std::size_t i = 0; i < ours.size(); ++i) {
      const auto match = by_name.find(ours[i].name());
      if (match == by_name.end()) continue;
      const std::uint64_t x = digests[i];
      const std::uint64_t y = other->second[match->second];
      if (x != 0 && y != 0 && x != y) return Divergence{position, ours[i].layer, ours[i].name()};
    }
  }
  return std::nullopt;
}

}  // namespace plumb::conformance
