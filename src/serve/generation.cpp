// One request from prompt to terminal event: chunked prefill, then decode, one step at a time.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "base/check.h"
#include "serve/engine_impl.h"
#include "text/stop.h"
#include "text/stream_decoder.h"

namespace plumb {
namespace {

using Clock = std::chrono::steady_clock;

double ms_between(Clock::time_point a, Clock::time_point b) { return std::chrono::duration<double, std::milli>(b - a).count(); }

Error bad(const char* field, std::string message, std::string value) {
  return fail(ErrorCode::invalid_argument, std::move(message), "request", field, std::move(value));
}

Status check_sampling(const Sampling& s) {
  if (!(s.temperature >= 0) || !std::isfinite(s.temperature)) return bad("temperature", "must be at least 0", std::to_string(s.temperature));
  if (!(s.top_p > 0 && s.top_p <= 1)) return bad("top_p", "must be above 0 and at most 1", std::to_string(s.top_p));
  if (!(s.min_p >= 0 && s.min_p < 1)) return bad("min_p", "must be at least 0 and below 1", std::to_string(s.min_p));
  if (s.top_k < 0) return bad("top_k", "must be at least 0", std::to_string(s.top_k));
  if (s.choice < 0) return bad("choice", "must be at least 0", std::to_string(s.choice));
  return {};
}

}  // namespace

class Generation {
 public:
  Generation(Engine::Impl& engine, const Request& request, const EventFn& on_event, const Engine::Impl::RouteFn& on_route)
      : engine_(engine), request_(request), on_event_(on_event), on_route_(on_route),
        decoder_(engine.tokenizer_, {.continues = true}),  // the answer follows the prompt: its first space is text
        sequence_(engine.layout_, engine.pool_list_, engine.tree_.get()) {}
  ~Generation() { sequence_.end(engine_.changes_); }
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  Result<Event> run() {
    PLUMB_TRY(prepare());
    PLUMB_TRY(reuse_prefix());
    PLUMB_ASSIGN(std::int32_t token, prefill());
    first_token_ = Clock::now();
    while (finish_ == Finish::none) {
      PLUMB_TRY(consume(token));
      if (finish_ != Finish::none) break;
      PLUMB_ASSIGN(token, decode());
    }
    return terminal();
  }

 private:
  std::int32_t length() const { return static_cast<std::int32_t>(ids_.size()); }
  std::int32_t context() const { return engine_.info_.context; }

  Status prepare() {
    PLUMB_TRY(check_sampling(request_.sampling));
    if (request_.max_tokens < 0) return bad("max_tokens", "must be at least 0", std::to_string(request_.max_tokens));
    const text::Tokenizer& tokenizer = engine_.tokenizer_;
    if (request_.prompt_ids.empty()) {
      PLUMB_ASSIGN(ids_, tokenizer.encode(request_.prompt, {.add_bos = tokenizer.adds_bos(), .parse_special = request_.parse_special}));
    } else {
      ids_ = request_.prompt_ids;
    }
    prompt_tokens_ = length();
    if (ids_.empty()) return bad("prompt", "must hold at least one token", "empty");
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      if (ids_[i] < 0 || ids_[i] >= engine_.spec_.vocab) {
        return bad(("prompt_ids[" + std::to_string(i) + "]").c_str(), "must be below the vocabulary of " + std::to_string(engine_.spec_.vocab),
                   std::to_string(ids_[i]));
      }
    }
    if (length() > context()) {
      return bad("prompt", "must fit the context of " + std::to_string(context()) + " positions", std::to_string(length()) + " tokens");
    }
    std::int32_t last = -1;
    for (const std::int32_t p : request_.logit_positions) {
      if (p <= last || p >= length()) return bad("logit_positions", "must ascend inside the prompt", std::to_string(p));
      last = p;
    }
    PLUMB_ASSIGN(stop_, text::StopMatcher::create(request_.stop));
    for (std::size_t c = 0; c < engine_.layout_.classes.size(); ++c) {
      if (!engine_.layout_.classes[c].residency.full()) window_classes_ |= 1U << c;
    }
    stop_ids_ = request_.stop_ids;
    if (!request_.ignore_eos) stop_ids_.insert(stop_ids_.end(), engine_.info_.eos_ids.begin(), engine_.info_.eos_ids.end());
    return {};
  }

  // Takes what the prefix tree holds of the prompt. A request that wants logits of prompt positions computes those.
  Status reuse_prefix() {
    if (engine_.tree_ == nullptr) return {};
    std::span<const std::int32_t> usable = ids_;
    if (!request_.logit_positions.empty()) usable = usable.first(static_cast<std::size_t>(request_.logit_positions.front()) + 1);
    match_ = engine_.tree_->match(usable);
    return sequence_.begin(match_, engine_.changes_, zero_);
  }

  // Adds the row of `position` to the plan.
  void add_row(std::int32_t position) {
    kernels::Row row{.token = ids_[static_cast<std::size_t>(position)], .position = {position}};
    if (position < match_.length) row.write_classes = window_classes_;  // the full-attention rows there are shared
    plan_.batch.rows.push_back(row);
  }

  kernels::SampleParams params(std::int32_t position) const {
    const Sampling& s = request_.sampling;
    return {.temperature = s.temperature, .top_p = s.top_p, .min_p = s.min_p, .top_k = s.top_k, .seed = s.seed, .choice = s.choice, .position = position};
  }

  // Runs the prompt in chunks. Returns the first token, or -1 when none is wanted.
  Result<std::int32_t> prefill() {
    const std::int32_t max_logit_rows = engine_.executor_->program().max_logit_rows;
    std::size_t next_logits = 0;
    std::int32_t token = -1;
    for (std::int32_t start = match_.recompute_from; start < prompt_tokens_;) {
      plan_.clear();
      logit_positions_.clear();
      std::int32_t end = start;
      for (; end < prompt_tokens_ && end - start < engine_.chunk_rows_; ++end) {
        const bool wanted = next_logits < request_.logit_positions.size() && request_.logit_positions[next_logits] == end;
        const bool last = end + 1 == prompt_tokens_ && request_.max_tokens > 0;
        if ((wanted || last) && static_cast<std::int32_t>(plan_.batch.logits.size()) == max_logit_rows) break;
        add_row(end);
        if (wanted || last) {
          plan_.batch.logits.push_back({.row = end - start, .params = last ? params(prompt_tokens_) : kernels::SampleParams{}});
          logit_positions_.push_back(wanted ? end : -1);
        }
        if (wanted) ++next_logits;
      }
      plan_.want_logits = !request_.logit_positions.empty() || request_.token_logits;
      PLUMB_ASSIGN(const decode::StepOutput out, step());
      for (std::size_t i = 0; i < logit_positions_.size(); ++i) {
        if (logit_positions_[i] < 0) continue;
        PLUMB_TRY(deliver_logits(logit_positions_[i], out.logits(i), out.digests()[i]));
        if (finish_ != Finish::none) return token;
      }
      if (end == prompt_tokens_ && request_.max_tokens > 0) {
        token = out.tokens().back();
        remember(out, out.tokens().size() - 1);
      }
      start = end;
      if (end < prompt_tokens_) {
        emit({.kind = EventKind::progress, .position = end});
        if (finish_ != Finish::none) return token;
      }
    }
    sequence_.mark_snapshot();  // the prompt's end: an edited or dropped answer branches here
    if (request_.max_tokens == 0) finish_ = Finish::length;
    return token;
  }

  // One decode step: feeds the last token, returns the next.
  Result<std::int32_t> decode() {
    plan_.clear();
    add_row(length() - 1);
    plan_.batch.logits.push_back({.row = 0, .params = params(length())});
    plan_.want_logits = request_.token_logits;
    PLUMB_ASSIGN(const decode::StepOutput out, step());
    remember(out, 0);
    return out.tokens()[0];
  }

  Result<decode::StepOutput> step() {
    ++plan_.id;
    const std::int32_t end = plan_.batch.rows.back().position.value + 1;
    PLUMB_TRY(sequence_.reserve(end, engine_.changes_));
    hand_over_changes();
    engine_.tables_unknown_ = true;  // a step that fails may not have written its page tables
    PLUMB_ASSIGN(const decode::Submission submission, engine_.executor_->submit(plan_));
    Result<decode::StepOutput> out = submission.wait();
    engine_.tables_unknown_ = !out.ok();
    if (!out.ok()) return out;
    sequence_.commit(std::span(ids_).first(static_cast<std::size_t>(end)), engine_.changes_);
    if (on_route_) report_routes(submission);
    return out;
  }

  void hand_over_changes() {
    if (engine_.tables_unknown_) clear_tables();
    for (const kv::TableChange& c : engine_.changes_) plan_.table_writes.push_back({c.layer_class, 0, c.index, c.page});
    for (const kv::TableChange& c : zero_) plan_.zero_pages.push_back({c.layer_class, c.page});
    engine_.changes_.clear();
    zero_.clear();
  }

  void clear_tables() {
    for (std::size_t c = 0; c < engine_.layout_.classes.size(); ++c) {
      for (std::int32_t i = 0; i < engine_.layout_.classes[c].geometry.table_pages; ++i) {
        plan_.table_writes.push_back({static_cast<std::int32_t>(c), 0, i, kernels::kNoPage});
      }
    }
  }

  void report_routes(const decode::Submission& submission) {
    for (const auto& tap : engine_.router_taps_) {
      const auto logits = submission.tap(tap.first_tap);
      const auto experts = submission.tap(tap.first_tap + 1);
      std::vector<float> row(static_cast<std::size_t>(tap.experts));
      std::vector<std::int32_t> chosen(static_cast<std::size_t>(tap.top_k));
      for (std::size_t r = 0; r < plan_.batch.rows.size(); ++r) {
        std::memcpy(row.data(), logits.data() + r * row.size() * 4, row.size() * 4);
        std::memcpy(chosen.data(), experts.data() + r * chosen.size() * 4, chosen.size() * 4);
        const float kth = row[static_cast<std::size_t>(chosen.back())];
        for (const std::int32_t e : chosen) row[static_cast<std::size_t>(e)] = -std::numeric_limits<float>::infinity();
        const float next = *std::max_element(row.begin(), row.end());
        on_route_({tap.layer, plan_.batch.rows[r].position.value, kth - next, chosen});
      }
    }
  }

  // Keeps what the token event of the coming consume() needs.
  void remember(const decode::StepOutput& out, std::size_t row) {
    digest_ = out.digests()[row];
    token_logits_.clear();
    if (request_.token_logits) token_logits_.assign(out.logits(row).begin(), out.logits(row).end());
  }

  void emit(const Event& event) {
    if (on_event_ && !on_event_(event) && finish_ == Finish::none) finish_ = Finish::cancelled;
  }

  Status deliver_logits(std::int32_t position, std::span<const float> logits, std::uint64_t digest) {
    Event event{.kind = EventKind::logits, .position = position, .logit_digest = digest};
    event.logits.assign(logits.begin(), logits.end());
    emit(event);
    return {};
  }

  // Takes a drawn token: the text it makes printable, and every reason to stop.
  Status consume(std::int32_t token) {
    PLUMB_CHECK(token >= 0 && token < engine_.spec_.vocab);
    stopped_by_ = -1;
    const bool ends = std::find(stop_ids_.begin(), stop_ids_.end(), token) != stop_ids_.end();
    Event event{.kind = EventKind::token, .token = token, .position = length(), .logit_digest = digest_};
    event.logits = std::move(token_logits_);
    ids_.push_back(token);
    ++completion_tokens_;
    if (ends) {
      finish_ = Finish::stop_token;  // the token counts and is reported, its spelling is not text
      stopped_by_ = token;
    } else {
      event.text = stop_->feed(decoder_.feed(token));
      if (stop_->stopped()) finish_ = Finish::stop_string;
    }
    if (finish_ == Finish::none && completion_tokens_ == request_.max_tokens) finish_ = Finish::length;
    // The next step would compute position length() - 1, so the context is full when that is the last one it holds and
    // another token would follow it.
    if (finish_ == Finish::none && length() > context()) finish_ = Finish::context;
    emit(event);
    return {};
  }

  Event terminal() {
    Event event{.kind = EventKind::finished, .token = stopped_by_, .position = length(), .finish = finish_};
    if (finish_ != Finish::stop_string) event.text = stop_->feed(decoder_.flush()) + stop_->flush();
    const auto end = Clock::now();
    event.usage = {.prompt_tokens = prompt_tokens_,
                   .completion_tokens = completion_tokens_,
                   .cached_tokens = match_.recompute_from,
                   .rebuilt_tokens = match_.length - match_.recompute_from,
                   .prompt_ms = ms_between(start_, first_token_),
                   .completion_ms = ms_between(first_token_, end)};
    if (on_event_) on_event_(event);
    return event;
  }

  Engine::Impl& engine_;
  const Request& request_;
  const EventFn& on_event_;
  const Engine::Impl::RouteFn& on_route_;
  text::StreamDecoder decoder_;
  kv::Sequence sequence_;
  kv::PrefixMatch match_;
  std::vector<kv::TableChange> zero_;  // stand-in pages of a cold window, not yet zeroed
  std::uint32_t window_classes_ = 0;   // bit per layer class with a window
  std::optional<text::StopMatcher> stop_;
  std::vector<std::int32_t> ids_;  // prompt and answer
  std::vector<std::int32_t> stop_ids_;
  std::int32_t prompt_tokens_ = 0;
  std::int32_t completion_tokens_ = 0;
  std::int32_t stopped_by_ = -1;
  decode::StepPlan plan_;
  std::vector<std::int32_t> logit_positions_;  // per logit row of the plan: the position asked for, or -1
  std::vector<float> token_logits_;
  std::uint64_t digest_ = 0;
  Finish finish_ = Finish::none;
  Clock::time_point start_ = Clock::now();
  Clock::time_point first_token_ = start_;
};

Result<Event> Engine::Impl::generate(const Request& request, const EventFn& on_event, const RouteFn& on_route) {
  const std::lock_guard lock(generating_);
  PLUMB_CHECK(!on_route || !router_taps_.empty());
  return Generation(*this, request, on_event, on_route).run();
}

}  // namespace plumb
