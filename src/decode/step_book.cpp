#include "decode/step_book.h"

#include <string>

#include "base/check.h"

namespace plumb::decode {

using kernels::kNoPage;

StepBook::StepBook(const CellContext* context, const Clock& clock, kv::StepClock& steps, const DeviceCells& device,
                   std::span<kv::PagePool* const> pools)
    : clock_(clock), steps_(steps), device_(device), pools_(pools.begin(), pools.end()), stamp_(context) {}

StepTicket StepBook::open(StepPlan&& plan) {
  const std::uint64_t id = steps_.launched.get() + 1;
  const std::uint64_t now = clock_.now_ns();
  PLUMB_CHECK(now >= stamp_.get().time_ns);  // a watchdog compares these
  steps_.launched.set(id);
  stamp_.set({id, now});
  for (const Share& share : plan.shares) {
    Track& track = *share.track;
    track.launched.update([rows = share.rows](std::int32_t& launched) { launched += rows; });
    track.in_flight.update([](std::int32_t& flights) { ++flights; });
    track.stamp.set({id, now});
    if (share.chunk) track.chunk.set(true);
    if (share.sampled >= 0) {
      track.drawn.update([](std::int32_t& drawn) { ++drawn; });
      track.pending.set(Pending::relay);
    }
  }
  return {id, now, std::move(plan)};
}

// The device counts for itself how far each sequence has come; a step that lost its way must not advance the host.
Status StepBook::check_lengths(const StepTicket& ticket, const StepOutput& out) const {
  device_.length.read();
  for (const Share& share : ticket.plan().shares) {
    const std::int32_t found = out.lengths()[static_cast<std::size_t>(share.row)];
    if (found == share.end()) continue;
    return fail(ErrorCode::device_fault, "the device's length of row " + std::to_string(share.row) + " should be " + std::to_string(share.end()),
                "step " + std::to_string(ticket.id()), "length", std::to_string(found));
  }
  return {};
}

StepReceipt StepBook::settle(const StepTicket& ticket, const Result<StepOutput>& result) {
  PLUMB_CHECK(ticket.id() == steps_.settled.get() + 1);
  StepReceipt receipt{ticket.id(), {}, {}};
  if (!result.ok()) {
    receipt.status = result.error();
  } else {
    receipt.status = check_lengths(ticket, *result);
  }
  const StepOutput* out = receipt.status.ok() ? &result.value() : nullptr;
  steps_.settled.set(ticket.id());
  for (kv::PagePool* pool : pools_) pool->reclaim();
  receipt.shares.reserve(ticket.plan().shares.size());
  for (const Share& share : ticket.plan().shares) receipt.shares.push_back(settle_share(share, out));
  return receipt;
}

Settled StepBook::settle_share(const Share& share, const StepOutput* out) {
  Settled settled{share, false, -1, 0};
  Track& track = *share.track;
  PLUMB_CHECK(track.incarnation == share.incarnation);
  track.in_flight.update([](std::int32_t& flights) { --flights; });
  if (share.chunk) track.chunk.set(false);
  if (share.sampled >= 0) {
    track.drawn.update([](std::int32_t& drawn) { --drawn; });
    if (track.drawn.get() == 0) track.pending.set(Pending::host);
  }
  if (out == nullptr || track.closing.get()) {
    settled.dropped = true;
    track.launched.update([rows = share.rows](std::int32_t& launched) { launched -= rows; });
    if (share.state_save != kNoPage) track.sequence.discard_state(share.state_save);
    return settled;
  }
  const std::int32_t length = track.computed.get() + share.rows;
  track.computed.set(length);
  track.sequence.commit(std::span(track.tokens.get()).first(static_cast<std::size_t>(length)));
  if (share.starts_state) track.sequence.state_copied();
  if (share.state_save != kNoPage) track.sequence.adopt_state(length, share.state_save);
  if (share.sampled >= 0) {
    const auto i = static_cast<std::size_t>(share.sampled);
    settled.token = out->tokens()[i];
    settled.digest = out->digests()[i];
    track.tokens.update([token = settled.token](auto& tokens) { tokens.push_back(token); });
  }
  return settled;
}

}  // namespace plumb::decode
