#include "batch_run.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "base/status.h"

namespace plumb::app {

Status BatchRun::run(std::span<const BatchLine> lines, const std::function<bool()>& go_on, const std::function<void(const BatchTotals&)>& on_line) {
  on_line_ = on_line;
  for (;;) {
    PLUMB_TRY(fill(lines));
    if (active_.empty() || !go_on()) break;
    Active& active = next_to_wait_for();
    Event event;
    if (active.stream.next(event)) PLUMB_TRY(take(active, std::move(event)));
    PLUMB_TRY(collect());
  }
  active_.clear();
  jobs_.clear();
  return input_.check();
}

Status BatchRun::fill(std::span<const BatchLine>& lines) {
  while (active_.size() < window_) {
    if (!jobs_.empty() && jobs_.back().submitted < jobs_.back().request.requests.size()) {
      PLUMB_TRY(submit_next(jobs_.back()));
    } else if (!lines.empty()) {
      const BatchLine& line = lines.front();
      lines = lines.subspan(1);
      PLUMB_TRY(begin_line(line));
    } else {
      break;
    }
  }
  return {};
}

Status BatchRun::begin_line(const BatchLine& line) {
  Job& job = jobs_.emplace_back();
  if (const Status read = reader_.read(line.number, input_.text(line), job.request); !read.ok()) return fail(job, read.error());
  job.answers.resize(job.request.requests.size());
  return {};
}

Status BatchRun::submit_next(Job& job) {
  const std::size_t index = job.submitted++;
  auto stream = engine_.submit(job.request.requests[index]);
  if (stream.ok()) {
    active_.push_back({std::move(*stream), &job, index});
    return {};
  }
  const ErrorCode code = stream.error().code;
  if (code == ErrorCode::device_lost || code == ErrorCode::cancelled) return stream.error();
  return fail(job, stream.error());
}

Status BatchRun::take(Active& active, Event&& event) {
  active.begun = true;
  if (active.over) return {};
  Job& job = *active.job;
  const bool finished = event.kind == EventKind::finished;
  Answer& answer = job.answers[active.index];
  answer.take(std::move(event));
  if (!finished) return {};
  active.over = true;
  if (answer.end.finish == Finish::error) {
    if (answer.end.error.code == ErrorCode::device_lost) return answer.end.error;
    return fail(job, answer.end.error);
  }
  // Nobody here cancels a request that still has a line waiting for it, so the engine is shutting down.
  if (answer.end.finish == Finish::cancelled) return plumb::fail(ErrorCode::cancelled, "the engine gave up a request");
  if (++job.finished == job.answers.size()) return finish(job);
  return {};
}

// Everything that is there already. Computes nothing.
Status BatchRun::collect() {
  for (auto it = active_.begin(); it != active_.end();) {
    Event event;
    while (!it->over && it->stream.try_next(event)) PLUMB_TRY(take(*it, std::move(event)));
    it = it->over ? active_.erase(it) : std::next(it);
  }
  return {};
}

// One that is being computed, since its next event is one step away; while it is waited for, events of the others pile up. If none
// is, the one that will be admitted first.
BatchRun::Active& BatchRun::next_to_wait_for() {
  const auto begun = std::find_if(active_.begin(), active_.end(), [](const Active& a) { return a.begun; });
  if (begun != active_.end()) return *begun;
  return *std::max_element(active_.begin(), active_.end(), [](const Active& a, const Active& b) {
    return a.job->request.requests[a.index].priority < b.job->request.requests[b.index].priority;
  });
}

Status BatchRun::finish(Job& job) {
  PLUMB_TRY(results_.append(result_line(job.request, job.answers, reader_, engine_, std::time(nullptr))));
  ++totals_.done;
  for (const Answer& answer : job.answers) {
    const Usage& usage = answer.end.usage;
    ++totals_.answers;
    totals_.prompt_tokens += static_cast<std::uint64_t>(usage.prompt_tokens);
    totals_.tokens += static_cast<std::uint64_t>(usage.completion_tokens);
    totals_.cached_tokens += static_cast<std::uint64_t>(usage.cached_tokens);
    totals_.rebuilt_tokens += static_cast<std::uint64_t>(usage.rebuilt_tokens);
    totals_.matched_tokens += static_cast<std::uint64_t>(usage.matched_tokens);
    totals_.retractions += static_cast<std::uint64_t>(usage.retractions);
    totals_.first_token_ms.push_back(usage.prompt_ms);
    if (usage.completion_tokens > 1) totals_.tokens_per_s.push_back(decode_rate(usage));
  }
  jobs_.remove_if([&](const Job& other) { return &other == &job; });
  on_line_(totals_);
  return {};
}

// An error of one answer is that of the line: its other answers are given up.
Status BatchRun::fail(Job& job, const Error& error) {
  PLUMB_TRY(results_.append(error_line(job.request, error)));
  ++totals_.failed;
  for (Active& active : active_) {
    if (active.job == &job) active.over = true;  // collect() lets go of it, and with the stream goes the request
  }
  jobs_.remove_if([&](const Job& other) { return &other == &job; });
  on_line_(totals_);
  return {};
}

}  // namespace plumb::app
