// Scheduler: many requests on one executor.
//
// One turn of the decode loop at a time: requests come in (intake), wait in order of priority and arrival, are admitted as a
// transaction with an exact page budget, share steps (decode rows first, then chunks of prompts), give their memory to older
// ones when pools run dry (retraction), and end exactly once. The loop decides when steps are launched and settled; the StepBook
// is what both change state through.
//
// Thread rule: one thread at a time drives (turn and everything but mailbox()); any thread posts mail.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/cell.h"
#include "base/clock.h"
#include "decode/executor.h"
#include "decode/loop.h"
#include "decode/step_book.h"
#include "kv/prefix_tree.h"
#include "kv/sequence.h"
#include "serve/mailbox.h"
#include "serve/request_state.h"
#include "text/tokenizer.h"

namespace plumb {

// Which experts one position was sent to in one layer, and how sure the router was: the k-th largest logit minus the next.
struct RoutedPosition {
  std::int32_t layer = 0;
  std::int32_t position = 0;
  float margin = 0;                      // +inf when every expert is taken
  std::span<const std::int32_t> experts; // [top_k], falling logit
};

// A router whose outputs are kept for RouteFn: two taps of the executor, logits and experts.
struct RouterTap {
  std::int16_t layer;
  std::int32_t experts;  // of the layer
  std::int32_t top_k;
  std::size_t first_tap;
};

// Looks on: what the contract's checkers and simulations hang on to. Must not change anything.
class SchedulerWatch {
 public:
  virtual ~SchedulerWatch() = default;
  virtual void queued(const RequestState& /*request*/) {}
  virtual void admitted(const RequestState& /*request*/) {}
  virtual void refused(const RequestState& /*request*/) {}  // the head of the queue does not fit now
  virtual void opened(const decode::StepTicket& /*ticket*/, bool /*ahead*/) {}
  virtual void launched(const decode::StepTicket& /*ticket*/) {}  // the device has it, or has refused it: it is in flight either way
  // It has run; what it computed can be looked at before the next step overwrites it.
  virtual void ran(const decode::StepTicket& /*ticket*/, const decode::Submission& /*submission*/) {}
  virtual void counted(const decode::StepTicket& /*ticket*/, const decode::StepReceipt& /*receipt*/) {}  // by the book; not delivered yet
  virtual void settled(const decode::StepTicket& /*ticket*/, const decode::StepReceipt& /*receipt*/) {}  // delivered too
  virtual void retracting(const RequestState& /*request*/) {}  // it still holds what it is about to give
  virtual void retracted(const RequestState& /*request*/) {}
  virtual void ending(const RequestState& /*request*/, Finish /*finish*/) {}  // its terminal event comes next
  virtual void released(RequestId /*request*/) {}
  virtual void flushed() {}
};

enum class Mode : std::uint8_t { running, paused, stopped };

// How the scheduler is set up. Everything outlives it.
struct SchedulerParts {
  CellContext& context;
  const Clock& clock;
  decode::Executor& executor;
  const kv::KvLayout& layout;
  std::span<kv::PagePool* const> pools;  // by layer class
  kv::PagePool* aux;                     // recurrent-state slots; null without recurrent layers
  kv::SlotTable& slots;
  kv::PrefixTree* tree;                  // null: nothing is shared
  kv::StepClock& steps;
  const text::Tokenizer& tokenizer;
  const ModelInfo& info;
  decode::LoopChoice loop;
  std::int32_t max_requests;
  std::span<const RouterTap> router_taps;
};

// Receives every event. Called by the driving thread.
using EventSink = std::function<void(RequestId, Event&&)>;
using RouteFn = std::function<void(const RoutedPosition&)>;

class Scheduler final : private decode::LoopHost {
 public:
  Scheduler(const SchedulerParts& parts, EventSink sink);
  // REQUIRES: drained (stop posted, and turns until nothing is in flight).
  ~Scheduler() override;

  Mailbox& mailbox() { return mailbox_; }
  // One turn of the loop: some work, or false when there is none to do now.
  bool turn();
  // Takes in mail without computing anything.
  void attend() { coordinate(); }
  // Work is owed: requests that can move, or steps that have not settled (C25).
  bool active() const;
  // Steps in flight, of whatever loop (C5).
  bool busy() const { return busy_.get() > 0; }
  // What a watchdog looks at: as long as work is owed, `progress` or `settled` moves.
  struct Health {
    std::uint64_t progress, launched, settled, last_launch_ns;
    std::size_t waiting, running, in_flight;
  };
  Health health() const;
  // Settles everything in flight.
  void drain();

  // What a request must be, apart from what the tokenizer says. `prompt`: its tokens. Errors: invalid_argument, capacity.
  Status validate(const Request& request, std::span<const std::int32_t> prompt) const;

  void on_route(RouteFn fn) { route_ = std::move(fn); }
  void watch(SchedulerWatch* watch) { watch_ = watch; }
  const decode::Loop& loop() const { return *loop_; }

  // For checkers: whether the head of the queue would fit now. Unobserved.
  bool head_fits();

  // For checkers and reports: no access of the program.
  using Requests = std::unordered_map<RequestId, std::unique_ptr<RequestState>>;
  const Requests& peek_requests() const { return requests_.peek(); }
  const std::vector<RequestState*>& peek_running() const { return running_.peek(); }
  // A deadline stands in the queue until its time has come.
  bool timed(const RequestState& request) const {
    const auto [first, last] = waiting_.peek().deadlines.equal_range(request.deadline_ns());
    return std::any_of(first, last, [&](const auto& d) { return d.second == request.id; });
  }
  bool waits(const RequestState& request) const {
    const auto it = waiting_.peek().order.find(Place{request.request.priority, request.arrival});
    return it != waiting_.peek().order.end() && it->second == &request;
  }
  std::size_t peek_waiting() const { return waiting_.peek().order.size(); }
  std::size_t peek_deadlines() const { return waiting_.peek().deadlines.size(); }
  std::size_t peek_flights() const { return flights_.peek().size(); }
  std::int32_t peek_busy() const { return busy_.peek(); }
  bool peek_blocked() const { return blocked_.peek(); }
  Mode peek_mode() const { return mode_.peek(); }
  std::uint64_t peek_progress() const { return progress_.peek(); }
  const decode::StepBook& book() const { return book_; }
  const SchedulerParts& parts() const { return parts_; }

 private:
  // Priority first, then arrival.
  struct Place {
    std::int32_t priority;
    std::uint64_t arrival;
    bool operator<(const Place& o) const { return priority != o.priority ? priority > o.priority : arrival < o.arrival; }
  };
  struct Queue {
    std::map<Place, RequestState*> order;
    std::multimap<std::uint64_t, RequestId> deadlines;  // of all requests that have one, ended ones until their time has come
  };
  struct Flight {
    decode::StepTicket ticket;
    decode::Submission submission;
    Status refused;  // why there is no submission
    bool sample_owed = false;
  };

  // A step that failed, and those behind it.
  struct Failure {
    Error error;
    RequestId blamed = 0;                         // 0: nobody knows
    std::map<RequestId, std::int32_t> carried;    // everybody in them, and the position the first would have reached; 0: not in it
    bool restart = false;                         // what the survivors computed in place cannot be computed again
  };

  // decode::LoopHost
  std::size_t in_flight() const override { return static_cast<std::size_t>(busy_.get()); }
  void coordinate() override;
  bool wants_rest() const override;
  bool prompt_in_flight() const override;
  decode::Launch launch(bool ahead) override;
  void settle(std::size_t count) override;

  // intake.cpp
  void take_mail();
  void enqueue(Mail&& mail);
  void pass_deadlines();
  // admission.cpp
  void admit();
  kv::PrefixMatch match_for(const RequestState& request) const;
  bool fits(std::span<const std::int32_t> tokens, const kv::PrefixMatch& match) const;
  std::int32_t pages_wanted(std::size_t layer_class, std::int32_t length) const;
  bool admit_one(RequestState& request);
  void retract(RequestState& request);
  void release(RequestState& request);
  void unblock();
  // planning.cpp
  decode::Launch plan(bool ahead, decode::StepPlan& plan);
  decode::Launch plan_decode(RequestState& request, decode::StepPlan& plan);
  decode::Launch plan_chunk(RequestState& request, std::int32_t decoding, decode::StepPlan& plan);
  std::int32_t state_boundary(const RequestState& request, std::int32_t start, std::int32_t end) const;
  decode::Launch make_room(RequestState& request, std::int32_t end);
  void plan_state(decode::Share& share, decode::StepPlan& plan);
  void add_row(const RequestState& request, std::int32_t position, decode::StepPlan& plan) const;
  void add_draw(const RequestState& request, std::int32_t position, decode::StepPlan& plan, decode::Share& share) const;
  decode::DrawRules gather_rules(const decode::StepPlan& plan) const;
  std::int64_t edit_count(const RequestState& request) const;
  bool edits_fit(const RequestState& request, const decode::StepPlan& plan) const;
  // recovery.cpp
  RequestId blame(const Flight& flight, const Error& error) const;
  void note(Failure& failure, const decode::StepTicket& ticket, bool first) const;
  void recover(const Failure& failure);
  bool suspects() const {
    return std::any_of(running_.get().begin(), running_.get().end(), [](const RequestState* r) { return r->suspect.get() > 0; });
  }
  decode::Launch plan_suspect(bool ahead, decode::StepPlan& plan);
  // delivery.cpp
  void deliver(const decode::StepTicket& ticket, const decode::StepReceipt& receipt, const decode::StepOutput* out,
               const decode::Submission& submission);
  void deliver_share(RequestState& request, const decode::Settled& settled, const decode::StepTicket& ticket, const decode::StepOutput& out);
  void deliver_token(RequestState& request, const decode::Settled& settled, const decode::StepOutput& out);
  void report_routes(const decode::StepTicket& ticket, const decode::Submission& submission) const;
  void end(RequestState& request, Finish finish, std::int32_t token = -1, const Error* error = nullptr);
  Usage usage(const RequestState& request) const;
  void progress() { progress_.update([](std::uint64_t& n) { ++n; }); }

  RequestState* find(RequestId id) const;
  bool recurrent() const { return parts_.aux != nullptr; }

  const SchedulerParts parts_;
  const EventSink sink_;
  const std::unique_ptr<decode::Loop> loop_;
  const std::uint32_t window_classes_;  // bit per layer class with a window
  const std::int32_t chunk_rows_;
  const std::int32_t max_edits_;
  decode::DeviceCells device_;
  decode::StepBook book_;
  Mailbox mailbox_;
  RouteFn route_;
  SchedulerWatch* watch_ = nullptr;

  Cell<CellId::scheduler_requests, Requests> requests_;
  Cell<CellId::scheduler_waiting, Queue> waiting_;
  Cell<CellId::scheduler_running, std::vector<RequestState*>> running_;  // oldest claim first
  Cell<CellId::scheduler_blocked, bool> blocked_;
  Cell<CellId::scheduler_mode, Mode> mode_;
  Cell<CellId::scheduler_flights, std::deque<Flight>> flights_;
  Cell<CellId::scheduler_busy, std::int32_t> busy_;
  Cell<CellId::scheduler_incarnations, std::uint64_t> incarnations_;
  Cell<CellId::scheduler_progress, std::uint64_t> progress_;
};

}  // namespace plumb
