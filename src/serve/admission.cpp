// Admission, retraction and release: who stands on the pools.
//
// Admission is a transaction (C17): the match, the row and the pages it stages are all owned by the track it builds, so that
// dropping the track undoes them. The budget (C19) is what the request and all that are already admitted will allocate until
// their prompts are computed and one page beyond; what a long answer needs later is got by eviction, and at last by retraction
// of the youngest.
#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "serve/scheduler.h"

namespace plumb {

// Pages of a class that a sequence of `length` positions, and one more, holds at once.
std::int32_t Scheduler::pages_wanted(std::size_t layer_class, std::int32_t length) const {
  const kv::Residency& r = parts_.layout.classes[layer_class].residency;
  const std::int32_t positions = std::min(length + 1, parts_.info.context);
  return std::min(kv::pages_for(positions), r.table_pages());
}

bool Scheduler::fits(std::span<const std::int32_t> tokens, const kv::PrefixMatch& match) const {
  for (std::size_t c = 0; c < parts_.pools.size(); ++c) {
    const bool full = parts_.layout.classes[c].residency.full();
    std::int32_t wanted = pages_wanted(c, static_cast<std::int32_t>(tokens.size()));
    if (full) wanted -= static_cast<std::int32_t>(match.path.size());  // shared, and locked from admission on
    for (const RequestState* r : running_.get()) {
      const decode::Track& track = *r->track.get();
      wanted += std::max(0, pages_wanted(c, std::max(track.extend_end, track.length())) - track.sequence.pages_held(c));
    }
    std::int32_t available = parts_.pools[c]->free_pages();
    if (available < wanted && parts_.tree != nullptr) {
      available += parts_.tree->evictable(c);
      if (full) available -= parts_.tree->evictable_on(match.path, c);
    }
    if (available < wanted) return false;
  }
  return true;
}

bool Scheduler::head_fits() {
  CellObserver* const observer = std::exchange(parts_.context.observer, nullptr);
  bool fits = false;
  if (!waiting_.get().order.empty() && parts_.slots.free_rows() > 0 && static_cast<std::int32_t>(running_.get().size()) < parts_.max_requests) {
    const RequestState& head = *waiting_.get().order.begin()->second;
    fits = this->fits(head.tokens.get(), match_for(head));
  }
  parts_.context.observer = observer;
  return fits;
}

// What the tree holds of the request's tokens and may be used. A request that wants logits of prompt positions computes those.
kv::PrefixMatch Scheduler::match_for(const RequestState& request) const {
  if (parts_.tree == nullptr) return {};
  std::span<const std::int32_t> usable = request.tokens.get();
  const auto& wanted = request.request.logit_positions;
  const auto told = static_cast<std::size_t>(request.emitted.get().logits);
  if (told < wanted.size()) usable = usable.first(static_cast<std::size_t>(wanted[told]) + 1);
  return parts_.tree->match(usable);
}

void Scheduler::admit() {
  if (blocked_.get()) return;
  while (!waiting_.get().order.empty() && static_cast<std::int32_t>(running_.get().size()) < parts_.max_requests) {
    if (!admit_one(*waiting_.get().order.begin()->second)) {
      // Nobody overtakes the head: it would wait for ever behind small ones.
      blocked_.set(true);
      if (watch_ != nullptr) watch_->refused(*waiting_.get().order.begin()->second);
      return;
    }
  }
}

// True when the request left the queue, admitted or refused.
bool Scheduler::admit_one(RequestState& request) {
  const std::vector<std::int32_t>& tokens = request.tokens.get();
  kv::PrefixMatch match = match_for(request);
  if (!fits(tokens, match)) {
    if (!running_.get().empty()) return false;
    // Nobody else holds anything, and still: it never fits.
    const Error error = fail(ErrorCode::capacity, "the KV pools cannot hold this request", "request", "prompt", std::to_string(tokens.size()) + " tokens");
    end(request, Finish::error, -1, &error);
    return true;
  }
  const auto row = parts_.slots.acquire_row();
  if (!row) return false;
  const kv::KvParts kv{parts_.layout, parts_.pools, parts_.slots, parts_.tree, parts_.aux, &parts_.context};
  const std::uint64_t incarnation = incarnations_.get() + 1;
  incarnations_.set(incarnation);
  auto track = std::make_unique<decode::Track>(kv, *row, incarnation, request.id, tokens);
  if (const Status begun = track->sequence.begin(match); !begun.ok()) {
    track.reset();  // undoes the match, the pages and the row
    if (!running_.get().empty()) return false;
    end(request, Finish::error, -1, &begun.error());
    return true;
  }
  track->computed.set(match.recompute_from);
  track->launched.set(match.recompute_from);
  request.tokens.set({});
  request.track.update([track = std::move(track)](auto& held) mutable { held = std::move(track); });
  request.stage.set(Stage::running);
  Lifetime life = request.lifetime.get();
  if (life.admitted_ns == 0) {
    life.admitted_ns = parts_.clock.now_ns();
    life.cached_tokens = match.recompute_from;
    life.rebuilt_tokens = match.length - match.recompute_from;
    life.matched_tokens = match.length;
    request.lifetime.set(life);
  }
  request.match.set(std::move(match));
  waiting_.update([place = Place{request.request.priority, request.arrival}](Queue& queue) { queue.order.erase(place); });
  running_.update([r = &request, place = Place{request.request.priority, request.arrival}](auto& running) {
    const auto at = std::find_if(running.begin(), running.end(), [&](const RequestState* other) {
      return place < Place{other->request.priority, other->arrival};
    });
    running.insert(at, r);
  });
  if (watch_ != nullptr) watch_->admitted(request);
  return true;
}

// Whatever could make the head of the queue fit calls this (C18).
void Scheduler::unblock() {
  if (blocked_.get()) blocked_.set(false);
}

// Gives everything back and returns to the queue. What it had computed stays in the tree until somebody needs the room.
void Scheduler::retract(RequestState& request) {
  const ActivityScope scope(parts_.context, Activity::release);
  decode::Track& track = *request.track.get();
  PLUMB_CHECK(track.in_flight.get() == 0);
  if (watch_ != nullptr) watch_->retracting(request);
  request.tokens.set(track.tokens.get());
  request.track.update([](auto& held) { held.reset(); });
  request.match.set({});
  request.stage.set(Stage::waiting);
  request.lifetime.update([](Lifetime& life) { ++life.retractions; });
  running_.update([r = &request](auto& running) { running.erase(std::find(running.begin(), running.end(), r)); });
  waiting_.update([place = Place{request.request.priority, request.arrival}, r = &request](Queue& queue) { queue.order.emplace(place, r); });
  unblock();
  if (watch_ != nullptr) watch_->retracted(request);
}

// The one way out for every request that has ended, once no step carries it any more (C20).
void Scheduler::release(RequestState& request) {
  const ActivityScope scope(parts_.context, Activity::release);
  const RequestId id = request.id;
  if (request.track.get() != nullptr) {
    PLUMB_CHECK(request.track.get()->in_flight.get() == 0);  // the track goes with the request, below
    running_.update([r = &request](auto& running) { running.erase(std::find(running.begin(), running.end(), r)); });
  } else {
    waiting_.update([place = Place{request.request.priority, request.arrival}](Queue& queue) { queue.order.erase(place); });
  }
  requests_.update([id](Requests& all) { all.erase(id); });
  unblock();
  if (watch_ != nullptr) watch_->released(id);
}

}  // namespace plumb
