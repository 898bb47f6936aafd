// Auditor: holds a running engine to every clause of the step contract, from outside.
//
// It keeps its own account of what was asked, launched, settled and delivered (the ghost), and compares the engine's whole state
// with it after every open, every settle and at idle. It reads state only by peek(), so it is invisible to the Tracker.
// Thread rule: the driving thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "decode/contract/contract.h"
#include "plumb/plumb.h"
#include "serve/engine_impl.h"
#include "serve/scheduler.h"

namespace plumb::conformance {

inline constexpr std::size_t kClauseCount = 25;

// What really happened: a run in which one of these is zero has not tested what it claims.
struct Happened {
  std::uint64_t steps = 0, chained = 0, mixed = 0, chunks = 0, middle_chunks = 0;
  std::uint64_t hits = 0, branches = 0, rebuilt = 0;
  std::uint64_t retractions = 0, late_stops = 0, failed_steps = 0, refunds = 0, late_edits = 0;
  std::uint64_t capacity_ends = 0, flushes = 0, pauses = 0, deadlines = 0, penalised = 0, constrained = 0;
  std::uint64_t named_faults = 0, suspects_cleared = 0, faults_survived = 0;
  std::uint64_t aborts_waiting = 0, aborts_chunk = 0, aborts_decode = 0, aborts_chained = 0;
  std::uint64_t blocked = 0, state_starts = 0, state_hits = 0, tokens = 0, requests = 0;
  void add(const Happened& other);
  std::vector<std::pair<const char*, std::uint64_t>> list() const;
};

struct Violation {
  std::string clause;
  std::string what;
};

class Auditor final : public SchedulerWatch {
 public:
  explicit Auditor(Engine::Impl& engine);
  ~Auditor() override;

  // The driver says what it does, and hands over every event it fetches.
  void asked(RequestId id, const Request& request, const std::vector<std::int32_t>& prompt);
  void aborted(RequestId id);
  void received(RequestId id, const Event& event);
  // Its client has gone, and every event it had been sent was fetched before: the rest is counted where it is made.
  void dropped(RequestId id) { ghosts_.at(id).dropped = true; }
  void told(const Scheduler::Health& health);  // what a prober outside reads, with every event fetched
  void turned(std::uint64_t began_ns);  // after every turn, with the time at which it began
  void idle();    // nothing is left to do
  // What the request gives when it runs alone on a cold engine: tokens and digests.
  void expect(RequestId id, std::vector<std::int32_t> tokens, std::vector<std::uint64_t> digests);
  void violate(const char* clause, std::string what);

  // A pause has been ordered and carried out; a step may fail from now on, because a fault was armed.
  void paused();
  void resumed();
  void may_fail() { may_fail_ = true; }

  // SchedulerWatch
  void queued(const RequestState& request) override;
  void refused(const RequestState& request) override;
  void admitted(const RequestState& request) override;
  void opened(const decode::StepTicket& ticket, bool ahead) override;
  void counted(const decode::StepTicket& ticket, const decode::StepReceipt& receipt) override;
  void settled(const decode::StepTicket& ticket, const decode::StepReceipt& receipt) override;
  void retracted(const RequestState& request) override;
  void ending(const RequestState& request, Finish finish) override;
  void released(RequestId request) override;
  void flushed() override;

  const std::vector<Violation>& violations() const { return violations_; }
  const std::array<std::uint64_t, kClauseCount>& checks() const { return checks_; }
  Happened& happened() { return happened_; }
  const Happened& happened() const { return happened_; }
  // Is a step being planned on top of one in flight / is a mixed batch being planned: for mutants that want only those.
  std::size_t in_flight() const { return open_.size(); }

 private:
  struct Ghost {
    Request request;
    std::vector<std::int32_t> prompt;
    std::vector<std::int32_t> answer;          // as received
    std::vector<std::uint64_t> digests;
    std::vector<std::int32_t> settled_answer;  // as drawn by steps that counted
    std::string text;
    std::vector<std::int32_t> expected;
    std::vector<std::uint64_t> expected_digests;
    bool has_expected = false;
    bool aborted = false;
    bool dropped = false;
    std::int32_t terminals = 0;
    Finish finish = Finish::none;
    std::int32_t chunks_in_flight = 0;
    std::int32_t retractions = 0;
    std::size_t logits = 0;                // events with logits received
    std::int32_t due = 0;                  // of those, whose positions settled steps have computed
    std::uint64_t admitted_ns = 0;
    std::int32_t cached = -1;              // of the first admission
    std::uint64_t first_token_ns = 0;
    std::int32_t suspect = 0;      // must pass these positions alone
    bool blamed = false;           // a fault was its
    bool shaken = false;           // it was in a step that failed, and has had no token since
    std::uint64_t published = 0;  // incarnation whose last launched draw was published in its relay cell; 0: none
  };
  struct Open {
    std::uint64_t id;
    std::vector<std::pair<std::size_t, kv::PageId>> written;  // (class, page) that its rows write
    struct Part {
      RequestId owner;
      std::int32_t rows;
      std::int32_t draws;
    };
    std::vector<Part> parts;
  };

  // auditor_state.cpp: the whole state
  void check_state();
  void check_pools();
  void check_tracks();
  void check_tree();
  void check_kept(const decode::Share& share, const RequestState& request, Ghost& ghost);
  Open::Part in_flight_of(RequestId id) const;  // of all steps in flight together
  std::uint64_t now() const { return scheduler_.parts().clock.now_ns(); }
  void learn_committed(const Ghost& ghost, std::int32_t computed);

  // auditor_draws.cpp: what steps were drawn with, and whose a failure is
  void learn_failure(const decode::StepTicket& ticket, const decode::StepReceipt& receipt);
  void check_edits(const decode::StepTicket& ticket, const decode::Share& share, const Ghost& ghost);
  void check_mask(std::span<const std::uint32_t> mask, const Ghost& ghost);

  bool check(const char* clause, bool holds, const char* what);
  template <class Explain>
  bool check(const char* clause, bool holds, Explain explain) {
    ++checks_[static_cast<std::size_t>(decode::clause_index(clause))];
    if (!holds) violate(clause, explain());
    return holds;
  }
  Ghost* ghost(RequestId id);

  Engine::Impl& engine_;
  const Scheduler& scheduler_;
  std::array<std::uint64_t, kClauseCount> checks_{};
  std::vector<Violation> violations_;
  Happened happened_;
  std::unordered_map<RequestId, Ghost> ghosts_;
  std::vector<Open> open_;
  std::uint64_t last_step_ = 0;
  std::uint64_t last_time_ = 0;
  std::uint64_t progress_ = 0;
  std::uint64_t last_use_ = 0;                 // the youngest use of any node when last looked at
  std::set<std::uint64_t> incarnations_;
  bool may_fail_ = false;
  std::unordered_set<std::uint64_t> committed_;  // hashes of page-wise prefixes that were computed
};

}  // namespace plumb::conformance
