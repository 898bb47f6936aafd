// Recovery: what a step that failed means for the requests it carried.
//
//   - The step gives back what it had counted, and so does everything chained behind it: each request stands where its last settled
//     step left it. Nobody has been told a token of theirs.
//   - Where the fault names a row, the request of that row ends with the error.
//   - Where it names none, a request that was alone in the step ends with the error. Of several, each is suspect until it has passed
//     the positions of that step in a step of its own: the one that fails then ends, and a fault that does not come back ends nobody.
//     n requests cost n further steps at most, and each of those is work that had to be done.
//   - The others go on. What they computed is overwritten by the same bits, position by position. State that a step changes in place
//     (recurrent layers) or wrote once for good (the stand-ins of a cold window) cannot be overwritten so: such requests give their
//     memory back, and are computed again from what the prefix tree holds, as after any retraction.
//   - A lost device, or one that answers too late, ends every request there is.
#include <algorithm>

#include "base/check.h"
#include "serve/scheduler.h"

namespace plumb {
namespace {

bool device_is_gone(ErrorCode code) {
  return code == ErrorCode::device_lost || code == ErrorCode::deadline_exceeded || code == ErrorCode::cancelled;
}

}  // namespace

// Whose fault it was, or 0.
RequestId Scheduler::blame(const Flight& flight, const Error& error) const {
  const decode::StepPlan& plan = flight.ticket.plan();
  if (device_is_gone(error.code)) return 0;
  const std::int32_t row = flight.submission && flight.refused.ok() ? flight.submission.faulted_row(plan) : -1;
  for (const decode::Share& share : plan.shares) {
    if (row >= share.first_row && row < share.first_row + share.rows) return share.owner;
  }
  return plan.shares.size() == 1 ? plan.shares.front().owner : 0;
}

// Of the step that failed and of those behind it: who was in them, and how far the first had them come.
void Scheduler::note(Failure& failure, const decode::StepTicket& ticket, bool first) const {
  for (const decode::Share& share : ticket.plan().shares) {
    failure.carried.try_emplace(share.owner, first ? share.end() : 0);
  }
  failure.restart = failure.restart || recurrent() || !ticket.plan().zero_pages.empty();
}

void Scheduler::recover(const Failure& failure) {
  const ActivityScope scope(parts_.context, Activity::deliver);
  PLUMB_CHECK(flights_.peek().empty());
  if (device_is_gone(failure.error.code)) {
    std::vector<RequestId> all;
    for (const auto& [id, request] : requests_.get()) all.push_back(id);
    std::sort(all.begin(), all.end());
    for (const RequestId id : all) end(*find(id), Finish::error, -1, &failure.error);
    return;
  }
  for (const auto& [id, reached] : failure.carried) {
    RequestState* request = find(id);
    if (request == nullptr) continue;  // ended before, and released with its last flight
    PLUMB_CHECK(request->stage.get() == Stage::running);
    if (id == failure.blamed) {
      end(*request, Finish::error, -1, &failure.error);
      continue;
    }
    if (failure.blamed == 0 && reached > 0) request->suspect.set(reached);
    if (failure.restart) retract(*request);
  }
}

// One suspect in a step of its own, if there is one that can move.
decode::Launch Scheduler::plan_suspect(bool ahead, decode::StepPlan& plan) {
  if (!suspects()) return decode::Launch::nothing;
  if (ahead) return decode::Launch::needs_rest;
  for (std::size_t i = 0; i < running_.get().size(); ++i) {  // by index: making room may shorten the list
    RequestState& r = *running_.get()[i];
    if (r.suspect.get() == 0) continue;
    const decode::Track& track = *r.track.get();
    const decode::Launch launch = track.launched.get() < track.extend_end ? plan_chunk(r, 0, plan) : plan_decode(r, plan);
    if (launch != decode::Launch::nothing) return launch;
  }
  return decode::Launch::nothing;
}

}  // namespace plumb
