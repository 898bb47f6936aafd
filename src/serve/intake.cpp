// Intake: mail becomes requests in the queue, cancellations and orders; deadlines pass.
#include <algorithm>
#include <cmath>
#include <string>

#include "base/check.h"
#include "decode/choice_constraint.h"
#include "decode/penalties.h"
#include "serve/scheduler.h"

namespace plumb {
namespace {

Error bad(const std::string& field, std::string message, std::string value) {
  return fail(ErrorCode::invalid_argument, std::move(message), "request", field, std::move(value));
}

Status check_sampling(const Sampling& s) {
  const auto in = [](float v, float lo, float hi) { return v >= lo && v <= hi; };  // false for NaN
  if (!(s.temperature >= 0) || !std::isfinite(s.temperature)) return bad("temperature", "must be at least 0", std::to_string(s.temperature));
  if (!(s.top_p > 0 && s.top_p <= 1)) return bad("top_p", "must be above 0 and at most 1", std::to_string(s.top_p));
  if (!(s.min_p >= 0 && s.min_p < 1)) return bad("min_p", "must be at least 0 and below 1", std::to_string(s.min_p));
  if (s.top_k < 0) return bad("top_k", "must be at least 0", std::to_string(s.top_k));
  if (s.choice < 0) return bad("choice", "must be at least 0", std::to_string(s.choice));
  if (!in(s.repetition_penalty, 0.01F, 100)) return bad("repetition_penalty", "must be from 0.01 to 100", std::to_string(s.repetition_penalty));
  if (!in(s.frequency_penalty, -2, 2)) return bad("frequency_penalty", "must be from -2 to 2", std::to_string(s.frequency_penalty));
  if (!in(s.presence_penalty, -2, 2)) return bad("presence_penalty", "must be from -2 to 2", std::to_string(s.presence_penalty));
  return {};
}

Status check_positions(const char* field, const std::vector<std::int32_t>& positions, std::int32_t end) {
  std::int32_t last = -1;
  for (const std::int32_t p : positions) {
    if (p <= last || p >= end) return bad(field, "must ascend inside the prompt", std::to_string(p));
    last = p;
  }
  return {};
}

constexpr std::size_t kMaxBiases = 1024;

}  // namespace

Status Scheduler::validate(const Request& r, std::span<const std::int32_t> prompt) const {
  PLUMB_TRY(check_sampling(r.sampling));
  if (r.max_tokens < 0) return bad("max_tokens", "must be at least 0", std::to_string(r.max_tokens));
  if (!(r.deadline_ms >= 0) || r.deadline_ms > 1e12) return bad("deadline_ms", "must be from 0 to 1e12", std::to_string(r.deadline_ms));
  const auto length = static_cast<std::int32_t>(prompt.size());
  const std::int32_t vocab = parts_.info.vocab;
  if (prompt.empty()) return bad("prompt", "must hold at least one token", "empty");
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    if (prompt[i] >= 0 && prompt[i] < vocab) continue;
    return bad("prompt_ids[" + std::to_string(i) + "]", "must be below the vocabulary of " + std::to_string(vocab), std::to_string(prompt[i]));
  }
  if (length > parts_.info.context) {
    return bad("prompt", "must fit the context of " + std::to_string(parts_.info.context) + " positions", std::to_string(length) + " tokens");
  }
  PLUMB_TRY(check_positions("logit_positions", r.logit_positions, length));
  PLUMB_TRY(check_positions("branch_points", r.branch_points, length));
  if (r.logit_bias.size() > kMaxBiases) return bad("logit_bias", "must have at most 1024 entries", std::to_string(r.logit_bias.size()));
  for (const LogitBias& b : r.logit_bias) {
    if (b.token < 0 || b.token >= vocab) return bad("logit_bias", "must name tokens of the vocabulary", std::to_string(b.token));
    if (!(std::abs(b.bias) <= 1e6F)) return bad("logit_bias", "must be from -1e6 to 1e6", std::to_string(b.bias));
  }
  if (r.choices && !r.stop.empty()) return bad("stop", "must be empty where choices are given: it could cut one short", std::to_string(r.stop.size()));
  if (r.choices && !r.stop_ids.empty()) {
    return bad("stop_ids", "must be empty where choices are given: it could cut one short", std::to_string(r.stop_ids.front()));
  }
  for (std::size_t c = 0; c < parts_.pools.size(); ++c) {
    const std::int32_t pages = pages_wanted(c, length);
    if (pages <= parts_.pools[c]->pages()) continue;
    return fail(ErrorCode::capacity, "the prompt needs more pages than the KV pool has", "request", "prompt",
                std::to_string(pages) + " of " + std::to_string(parts_.pools[c]->pages()) + " pages");
  }
  return {};
}

RequestState* Scheduler::find(RequestId id) const {
  const auto it = requests_.get().find(id);
  return it == requests_.get().end() ? nullptr : it->second.get();
}

void Scheduler::coordinate() {
  {
    const ActivityScope scope(parts_.context, Activity::intake);
    take_mail();
    pass_deadlines();
  }
  if (in_flight() == 0 && mode_.get() == Mode::running) {
    const ActivityScope scope(parts_.context, Activity::admit);
    admit();
  }
}

void Scheduler::take_mail() {
  if (mailbox_.empty()) return;
  std::vector<Mail> mail;
  mailbox_.take(mail);
  for (Mail& m : mail) {
    switch (m.order) {
      case Order::submit: enqueue(std::move(m)); break;
      case Order::cancel:
        if (RequestState* r = find(m.id)) end(*r, Finish::cancelled);
        break;
      case Order::pause:
        drain();
        mode_.set(Mode::paused);
        break;
      case Order::resume:
        mode_.set(Mode::running);
        unblock();
        break;
      case Order::flush:
        drain();
        if (parts_.tree != nullptr) parts_.tree->clear();
        unblock();
        if (watch_ != nullptr) watch_->flushed();
        break;
      case Order::stop: {
        drain();
        mode_.set(Mode::stopped);
        std::vector<RequestId> all;
        for (const auto& [id, request] : requests_.get()) all.push_back(id);
        std::sort(all.begin(), all.end());
        for (const RequestId id : all) {
          if (RequestState* r = find(id)) end(*r, Finish::cancelled);
        }
        break;
      }
    }
  }
}

void Scheduler::enqueue(Mail&& mail) {
  auto stop = text::StopMatcher::create(mail.request.stop);
  PLUMB_CHECK(stop.ok());  // looked at before it was posted
  std::vector<std::int32_t> ends = mail.request.stop_ids;
  if (!mail.request.ignore_eos || mail.choices != nullptr) ends.insert(ends.end(), parts_.info.eos_ids.begin(), parts_.info.eos_ids.end());
  // The answer follows the prompt: its first space is text.
  TextState text{text::StreamDecoder(parts_.tokenizer, {.continues = true}), std::move(*stop), {}};
  Shaping shaping;
  if (decode::Penalties::wanted(mail.request.sampling, mail.request.logit_bias)) {
    shaping.push_back(std::make_unique<decode::Penalties>(&parts_.context, mail.request.sampling, mail.request.logit_bias));
  }
  PLUMB_CHECK(mail.request.choices.has_value() == (mail.choices != nullptr));  // compiled before it was posted, or refused
  if (mail.choices != nullptr) {
    shaping.push_back(std::make_unique<decode::ChoiceConstraint>(&parts_.context, std::move(mail.choices), parts_.info.eos_ids));
  }
  auto request = std::make_unique<RequestState>(&parts_.context, mail.id, mail.id, std::move(mail.request), std::move(mail.prompt),
                                                mail.submitted_ns, std::move(text), std::move(ends), std::move(shaping));
  RequestState* const r = request.get();
  requests_.update([id = mail.id, request = std::move(request)](Requests& all) mutable { all.emplace(id, std::move(request)); });
  if (mode_.get() == Mode::stopped) {
    end(*r, Finish::cancelled);
    return;
  }
  waiting_.update([place = Place{r->request.priority, r->arrival}, r](Queue& queue) { queue.order.emplace(place, r); });
  if (r->request.deadline_ms > 0) {
    waiting_.update([at = r->deadline_ns(), id = r->id](Queue& queue) { queue.deadlines.emplace(at, id); });
  }
  unblock();
  if (watch_ != nullptr) watch_->queued(*r);
}

void Scheduler::pass_deadlines() {
  if (waiting_.get().deadlines.empty()) return;
  const std::uint64_t now = parts_.clock.now_ns();
  while (!waiting_.get().deadlines.empty() && waiting_.get().deadlines.begin()->first <= now) {
    const RequestId id = waiting_.get().deadlines.begin()->second;
    waiting_.update([](Queue& queue) { queue.deadlines.erase(queue.deadlines.begin()); });
    if (RequestState* r = find(id); r != nullptr && r->stage.get() != Stage::closing) end(*r, Finish::deadline);
  }
}

}  // namespace plumb
