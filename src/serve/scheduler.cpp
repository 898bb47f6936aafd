// Turns of the loop: launching tickets and settling them.
#include "serve/scheduler.h"

#include <algorithm>
#include <optional>

#include "base/check.h"

namespace plumb {
namespace {

std::uint32_t window_bits(const kv::KvLayout& layout) {
  std::uint32_t bits = 0;
  for (std::size_t c = 0; c < layout.classes.size(); ++c) {
    if (!layout.classes[c].residency.full()) bits |= 1U << c;
  }
  return bits;
}

std::vector<kv::PagePool*> all_pools(const SchedulerParts& parts) {
  std::vector<kv::PagePool*> pools(parts.pools.begin(), parts.pools.end());
  if (parts.aux != nullptr) pools.push_back(parts.aux);
  return pools;
}

std::int32_t edits_of(const kernels::Program& program) {
  for (const kernels::Slot& slot : program.slots) {
    if (slot.name == kernels::kSlotEdits) return static_cast<std::int32_t>(slot.bytes / sizeof(kernels::LogitEdit));
  }
  return 0;
}

}  // namespace

Scheduler::Scheduler(const SchedulerParts& parts, EventSink sink)
    : parts_(parts), sink_(std::move(sink)), loop_(parts.loop.entry->make(parts.loop.k)), window_classes_(window_bits(parts.layout)),
      chunk_rows_(parts.layout.options.chunk_rows), max_edits_(edits_of(parts.executor.program())), device_(&parts.context),
      book_(&parts.context, parts.clock, parts.steps, device_, all_pools(parts)), requests_(&parts.context), waiting_(&parts.context),
      running_(&parts.context), blocked_(&parts.context), mode_(&parts.context), flights_(&parts.context), busy_(&parts.context),
      incarnations_(&parts.context), progress_(&parts.context) {}

Scheduler::~Scheduler() = default;

bool Scheduler::turn() { return loop_->turn(*this); }

bool Scheduler::active() const {
  if (busy() || !mailbox_.empty()) return true;
  if (mode_.get() != Mode::running) return false;
  return !running_.get().empty() || !waiting_.get().order.empty();
}

Scheduler::Health Scheduler::health() const {
  return {progress_.get(), book_.launched(), book_.settled(), book_.last().time_ns, waiting_.get().order.size(), running_.get().size(), in_flight()};
}

void Scheduler::drain() {
  while (busy()) settle(in_flight());
}

// A chain ends for whoever could be admitted, for a prompt that is not yet computed, for orders that wait for it, and for a step
// that must be alone.
bool Scheduler::wants_rest() const {
  if (mode_.get() != Mode::running || suspects()) return true;
  if (!blocked_.get() && !waiting_.get().order.empty() && static_cast<std::int32_t>(running_.get().size()) < parts_.max_requests) return true;
  return std::any_of(running_.get().begin(), running_.get().end(), [](const RequestState* r) {
    const decode::Track& track = *r->track.get();
    return r->stage.get() == Stage::running && track.launched.get() < track.extend_end;
  });
}

bool Scheduler::prompt_in_flight() const {
  if (flights_.get().empty()) return false;
  const auto& shares = flights_.get().front().ticket.plan().shares;
  return std::any_of(shares.begin(), shares.end(), [](const decode::Share& share) { return share.chunk; });
}

decode::Launch Scheduler::launch(bool ahead) {
  if (mode_.get() != Mode::running) return decode::Launch::nothing;
  if (ahead && flights_.get().back().sample_owed) return decode::Launch::needs_oldest;
  decode::StepPlan plan;
  {
    const ActivityScope scope(parts_.context, Activity::plan);
    const decode::Launch planned = this->plan(ahead, plan);
    if (planned != decode::Launch::launched) return planned;
  }
  const bool sample_owed = plan.rules_later;
  decode::StepTicket ticket = [&] {
    const ActivityScope scope(parts_.context, Activity::open);
    return book_.open(std::move(plan));
  }();
  if (watch_ != nullptr) watch_->opened(ticket, ahead);
  const ActivityScope scope(parts_.context, Activity::launch);
  const decode::Submission after = ahead ? flights_.get().back().submission : decode::Submission();
  auto submission = ahead && !after ? Result<decode::Submission>(flights_.get().back().refused.error()) : parts_.executor.submit(ticket, after);
  Flight flight{std::move(ticket), {}, {}, sample_owed};
  if (submission.ok()) {
    flight.submission = *std::move(submission);
  } else {
    flight.refused = submission.error();
  }
  busy_.update([](std::int32_t& n) { ++n; });
  flights_.update([flight = std::move(flight)](auto& flights) mutable { flights.push_back(std::move(flight)); });
  if (watch_ != nullptr) watch_->launched(flights_.peek().back().ticket);
  return decode::Launch::launched;
}

void Scheduler::settle(std::size_t count) {
  PLUMB_CHECK(count >= 1 && count <= flights_.get().size());
  // One wait for the last of them: steps of one queue end in order.
  const auto& flights = flights_.get();
  const std::size_t last = count - 1;
  if (last > 0 && flights[last].submission && !flights[last].sample_owed) {
    if (const auto waited = flights[last].submission.wait(); !waited.ok()) {
      // Each of them says so again below.
    }
  }
  std::optional<Failure> failure;
  for (std::size_t i = 0; (i < count || failure) && !flights_.get().empty(); ++i) {
    const Flight& flight = flights_.get().front();
    Result<decode::StepOutput> result = flight.refused.ok() ? flight.submission.wait() : Result<decode::StepOutput>(flight.refused.error());
    if (failure) result = failure->error;  // what ran behind a step that failed stands on what that one lost
    if (watch_ != nullptr && result.ok()) watch_->ran(flight.ticket, flight.submission);
    decode::StepReceipt receipt = [&] {
      const ActivityScope scope(parts_.context, Activity::settle);
      return book_.settle(flight.ticket, result);
    }();
    if (!receipt.status.ok()) {
      parts_.slots.invalidate();  // the step may not have written its page tables
      receipt.behind = failure.has_value();
      if (!failure) {
        receipt.blamed = blame(flight, receipt.status.error());
        failure = Failure{receipt.status.error(), receipt.blamed, {}, false};
      }
      note(*failure, flight.ticket, !receipt.behind);
    }
    if (watch_ != nullptr) watch_->counted(flight.ticket, receipt);
    {
      const ActivityScope scope(parts_.context, Activity::deliver);
      deliver(flight.ticket, receipt, receipt.status.ok() ? &result.value() : nullptr, flight.submission);
    }
    if (watch_ != nullptr) watch_->settled(flight.ticket, receipt);
    {
      const ActivityScope scope(parts_.context, Activity::settle);
      flights_.update([](auto& all) { all.pop_front(); });
      busy_.update([](std::int32_t& n) { --n; });
    }
    if (failure) continue;
    // The next step's forward is on its way; what it draws depends on what this one drew.
    if (parts_.loop.entry->chained && !flights_.get().empty() && flights_.get().front().sample_owed) {
      const ActivityScope scope(parts_.context, Activity::launch);
      flights_.update([this, rules = gather_rules(flights_.get().front().ticket.plan())](auto& all) mutable {
        Flight& next = all.front();
        next.ticket.supply_rules(std::move(rules));
        next.sample_owed = false;
        if (!next.submission) return;
        auto sample = parts_.executor.submit_sample(next.ticket, next.submission);
        if (sample.ok()) {
          next.submission = *std::move(sample);
        } else {
          next.refused = sample.error();
        }
      });
    }
  }
  if (failure) recover(*failure);
}

}  // namespace plumb
