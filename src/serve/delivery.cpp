// Delivery: what a settled step means for its requests: text, events, reasons to stop.
#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/check.h"
#include "serve/scheduler.h"

namespace plumb {

void Scheduler::deliver(const decode::StepTicket& ticket, const decode::StepReceipt& receipt, const decode::StepOutput* out,
                        const decode::Submission& submission) {
  if (out != nullptr && route_) report_routes(ticket, submission);
  for (const decode::Settled& settled : receipt.shares) {
    RequestState* request = find(settled.share.owner);
    PLUMB_CHECK(request != nullptr);
    if (request->stage.get() == Stage::closing) {
      if (settled.share.track->in_flight.get() == 0) release(*request);
      continue;
    }
    if (out == nullptr) continue;  // recover() decides, when everything behind the step has settled too
    deliver_share(*request, settled, ticket, *out);
  }
}

void Scheduler::deliver_share(RequestState& request, const decode::Settled& settled, const decode::StepTicket& ticket, const decode::StepOutput& out) {
  const decode::Share& share = settled.share;
  decode::Track& track = *share.track;
  PLUMB_CHECK(track.stamp.get().step >= ticket.id());  // launched for it then, or again since
  if (request.suspect.get() > 0 && share.end() >= request.suspect.get()) request.suspect.set(0);
  // A page of this text has entered the tree: the head of the queue may share it, and need fewer of its own.
  if (share.first_position / kv::kPageRows != share.end() / kv::kPageRows) unblock();
  if (share.chunk) {
    const auto& wanted = request.request.logit_positions;
    for (std::int32_t i = share.first_logit; i < share.first_logit + share.logits; ++i) {
      const auto row = static_cast<std::size_t>(i);
      const std::int32_t position = share.first_position + ticket.plan().batch.logits[row].row - share.first_row;
      const auto told = static_cast<std::size_t>(request.emitted.get().logits);
      if (told >= wanted.size() || wanted[told] != position) continue;
      request.emitted.update([](Emitted& e) { ++e.logits; });
      Event event{.kind = EventKind::logits, .position = position, .logit_digest = out.digests()[row]};
      event.logits.assign(out.logits(row).begin(), out.logits(row).end());
      sink_(request.id, std::move(event));
    }
    progress();
    for (const std::int32_t p : request.request.branch_points) {
      if (p > share.first_position && p <= share.end()) track.sequence.mark_snapshot(p);
    }
    if (share.end() < track.extend_end) {
      if (share.end() < request.prompt_tokens) sink_(request.id, Event{.kind = EventKind::progress, .position = share.end()});
      return;
    }
    track.sequence.mark_snapshot(share.end());  // the prompt's end: an edited or dropped answer branches here
    if (settled.token < 0) {
      end(request, Finish::length);  // max_tokens is 0
      return;
    }
  }
  if (settled.token >= 0) deliver_token(request, settled, out);
}

// Takes a drawn token: the text it makes printable, and every reason to stop.
void Scheduler::deliver_token(RequestState& request, const decode::Settled& settled, const decode::StepOutput& out) {
  const std::int32_t token = settled.token;
  PLUMB_CHECK(token >= 0 && token < parts_.info.vocab);
  const std::int32_t length = request.track.get()->length();
  progress();
  if (request.lifetime.get().first_token_ns == 0) {
    request.lifetime.update([now = parts_.clock.now_ns()](Lifetime& life) { life.first_token_ns = now; });
  }
  for (const auto& state : request.shaping) state->accept(token);
  Event event{.kind = EventKind::token, .token = token, .position = length - 1, .logit_digest = settled.digest};
  if (request.request.token_logits) {
    const auto logits = out.logits(static_cast<std::size_t>(settled.share.sampled));
    event.logits.assign(logits.begin(), logits.end());
  }
  Finish finish = Finish::none;
  if (std::find(request.stop_ids.begin(), request.stop_ids.end(), token) != request.stop_ids.end()) {
    finish = Finish::stop_token;  // the token counts and is reported, its spelling is not text
  } else {
    request.text.update([token](TextState& t) { t.piece = t.stop.feed(t.decoder.feed(token)); });
    event.text = request.text.get().piece;
    if (request.text.get().stop.stopped()) finish = Finish::stop_string;
    if (request.complete()) finish = Finish::complete;
  }
  const std::int32_t answered = length - request.prompt_tokens;
  request.emitted.update([answered](Emitted& e) { e.tokens = answered; });
  if (finish == Finish::none && answered >= request.request.max_tokens) finish = Finish::length;
  // The next step would compute position length - 1, so the context is full when that is the last one it holds and another
  // token would follow it.
  if (finish == Finish::none && length > parts_.info.context) finish = Finish::context;
  sink_(request.id, std::move(event));
  if (finish != Finish::none) end(request, finish, finish == Finish::stop_token ? token : -1);
}

// The one way to end: the terminal event now, everything else as soon as no step carries the request (C11, C20).
void Scheduler::end(RequestState& request, Finish finish, std::int32_t token, const Error* error) {
  const ActivityScope scope(parts_.context, Activity::deliver);
  if (request.stage.get() == Stage::closing) return;
  if (watch_ != nullptr) watch_->ending(request, finish);
  const bool admitted = request.track.get() != nullptr;
  const std::int32_t length = admitted ? request.track.get()->length() : static_cast<std::int32_t>(request.tokens.get().size());
  Event event{.kind = EventKind::finished, .token = token, .position = length, .finish = finish};
  if (finish != Finish::stop_string) {
    request.text.update([](TextState& t) { t.piece = t.stop.feed(t.decoder.flush()) + t.stop.flush(); });
    event.text = request.text.get().piece;
  }
  event.usage = usage(request);
  if (error != nullptr) event.error = *error;
  progress();
  sink_(request.id, std::move(event));
  if (admitted) {
    decode::Track& track = *request.track.get();
    track.sequence.mark_snapshot(track.sequence.committed());  // the conversation goes on here
    if (track.in_flight.get() > 0) {                           // released when the last of them settles
      track.closing.set(true);
      request.stage.set(Stage::closing);
      return;
    }
  }
  release(request);
}

Usage Scheduler::usage(const RequestState& request) const {
  const Lifetime life = request.lifetime.get();
  const std::uint64_t now = parts_.clock.now_ns();
  const auto ms = [](std::uint64_t from, std::uint64_t to) { return to > from ? static_cast<double>(to - from) / 1e6 : 0.0; };
  const std::uint64_t first = life.first_token_ns == 0 ? now : life.first_token_ns;
  return {.prompt_tokens = request.prompt_tokens,
          .completion_tokens = request.emitted.get().tokens,
          .cached_tokens = life.cached_tokens,
          .rebuilt_tokens = life.rebuilt_tokens,
          .matched_tokens = life.matched_tokens,
          .retractions = life.retractions,
          .queue_ms = ms(request.submitted_ns, life.admitted_ns == 0 ? now : life.admitted_ns),
          .prompt_ms = ms(request.submitted_ns, first),
          .completion_ms = ms(first, now)};
}

void Scheduler::report_routes(const decode::StepTicket& ticket, const decode::Submission& submission) const {
  const auto& rows = ticket.plan().batch.rows;
  for (const RouterTap& tap : parts_.router_taps) {
    const auto logits = submission.tap(tap.first_tap);
    const auto experts = submission.tap(tap.first_tap + 1);
    std::vector<float> row(static_cast<std::size_t>(tap.experts));
    std::vector<std::int32_t> chosen(static_cast<std::size_t>(tap.top_k));
    for (std::size_t r = 0; r < rows.size(); ++r) {
      std::memcpy(row.data(), logits.data() + r * row.size() * 4, row.size() * 4);
      std::memcpy(chosen.data(), experts.data() + r * chosen.size() * 4, chosen.size() * 4);
      const float kth = row[static_cast<std::size_t>(chosen.back())];
      for (const std::int32_t e : chosen) row[static_cast<std::size_t>(e)] = -std::numeric_limits<float>::infinity();
      const float next = *std::max_element(row.begin(), row.end());
      route_({tap.layer, rows[r].position.value, kth - next, chosen});
    }
  }
}

}  // namespace plumb
