// StepBook: the only host writer of what a step changes.
//
//   open(plan) -> ticket     the step gets its identity and time; lengths, draws and flights count it
//   settle(ticket, result) -> receipt     the result is matched to its owners and counted, or given back
//
// An executor takes only an opened ticket, so a loop that skips a round trip cannot skip the book. More tickets can be open at
// once (chaining); they settle in the order they were opened. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <span>

#include "base/cell.h"
#include "base/clock.h"
#include "decode/step.h"
#include "decode/track.h"
#include "kv/page_pool.h"
#include "kv/step_clock.h"

namespace plumb::decode {

// When the last step was launched, for watchdogs and health (C3, C25).
struct BookStamp {
  std::uint64_t step = 0;
  std::uint64_t time_ns = 0;
};

// What the device itself keeps from step to step.
struct DeviceCells {
  explicit DeviceCells(const CellContext* context) : length(context), relay(context) {}
  DeviceCell<CellId::device_length> length;
  DeviceCell<CellId::device_relay> relay;
};

class StepBook {
 public:
  // All outlive the book. `pools`: every pool whose pages wait for steps.
  StepBook(const CellContext* context, const Clock& clock, kv::StepClock& steps, const DeviceCells& device,
           std::span<kv::PagePool* const> pools);

  // REQUIRES: slots of every row are reserved; the shares' rows follow what their tracks have launched.
  StepTicket open(StepPlan&& plan);

  // REQUIRES: tickets settle in the order they were opened. A step whose device lengths are not what was planned fails with
  // ErrorCode::device_fault.
  StepReceipt settle(const StepTicket& ticket, const Result<StepOutput>& result);

  std::uint64_t launched() const { return steps_.launched.get(); }
  std::uint64_t settled() const { return steps_.settled.get(); }
  BookStamp last() const { return stamp_.get(); }
  BookStamp peek_last() const { return stamp_.peek(); }

 private:
  Status check_lengths(const StepTicket& ticket, const StepOutput& out) const;
  Settled settle_share(const Share& share, const StepOutput* out);

  const Clock& clock_;
  kv::StepClock& steps_;
  const DeviceCells& device_;
  const std::vector<kv::PagePool*> pools_;
  Cell<CellId::book_stamp, BookStamp> stamp_;
};

}  // namespace plumb::decode
