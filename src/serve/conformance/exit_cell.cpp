#include "serve/conformance/exit_cell.h"

#include <algorithm>

namespace plumb::conformance {
namespace {

constexpr std::int32_t kMostTurnsToStrike = 200;

Finish expected(Exit exit) {
  switch (exit) {
    case Exit::stop_token:
    case Exit::eos: return Finish::stop_token;
    case Exit::stop_string: return Finish::stop_string;
    case Exit::context: return Finish::context;
    case Exit::abort:
    case Exit::disconnect:
    case Exit::shutdown: return Finish::cancelled;
    case Exit::deadline: return Finish::deadline;
    case Exit::memory:
    case Exit::fault:
    case Exit::lost: return Finish::error;
    case Exit::allocation:  // it does not come back, and so ends nobody
    case Exit::length:
    case Exit::retract:
    case Exit::flush:
    case Exit::pause:
    case Exit::count_: return Finish::length;
  }
  return Finish::none;
}

}  // namespace

ExitCellRun::ExitCellRun(World& world, Exit exit, Phase phase, const ExitCast& cast)
    : world_(world), exit_(exit), phase_(phase), chained_(world.engine().core().scheduler().parts().loop.entry->chained), cast_(cast) {
  world_.watches().add(this);
}

ExitCellRun::~ExitCellRun() { world_.watches().remove(this); }

bool ExitCellRun::here() const {
  if (subject_ < 0) return false;
  const RequestState* r = world_.state(subject_);
  if (r == nullptr) return false;
  const decode::Track* t = r->track.peek().get();
  if (phase_ == Phase::waiting) return t == nullptr && r->stage.peek() == Stage::waiting && world_.engine().core().scheduler().waits(*r);
  if (t == nullptr || r->stage.peek() != Stage::running) return false;
  const std::int32_t flights = t->in_flight.peek();
  const std::int32_t start = r->match.peek().recompute_from;
  const std::int32_t computed = t->computed.peek();
  switch (phase_) {
    case Phase::matched: return flights == 0 && start > 0 && t->launched.peek() == start && r->lifetime.peek().retractions == 0;
    case Phase::between_chunks: return flights == 0 && computed > start && computed < t->extend_end;
    case Phase::chunk_flight:
      // What begins another step on top of a chunk is a chain, and a chain waits for the whole prompt.
      return flights == 1 && t->chunk.peek() && (exit_ != Exit::allocation || t->launched.peek() == t->extend_end);
    case Phase::decode_rest: return flights == 0 && computed >= t->extend_end;
    case Phase::decode_flight: return flights == 1 && !t->chunk.peek();
    case Phase::chain_flight: return flights >= 2;
    case Phase::waiting:
    case Phase::count_: break;
  }
  return false;
}

// Brings the subject to the door of the phase; the exit strikes on the way, by itself or from the hooks below.
void ExitCellRun::approach() {
  if (!cast_.primer.prompt_ids.empty()) {
    world_.ask(cast_.primer);
    world_.rest();
  }
  for (const Request& r : cast_.company) others_.push_back(world_.ask(r));
  for (std::int32_t i = 0; i < cast_.head_start && !cast_.company.empty(); ++i) world_.turn();
  subject_ = world_.ask(cast_.subject);
  const bool decoding = phase_ == Phase::decode_rest || phase_ == Phase::decode_flight;
  if (!decoding) {
    for (const Request& r : cast_.later) others_.push_back(world_.ask(r));
  }
  if (phase_ == Phase::matched) world_.act({.deed = Deed::attend});
  striking_ = !decoding || natural_end(exit_);
  const bool at_rest = phase_ == Phase::waiting || phase_ == Phase::matched || phase_ == Phase::between_chunks || phase_ == Phase::decode_rest;
  const bool by_itself = natural_end(exit_) || exit_ == Exit::retract || exit_ == Exit::memory;
  bool joined = !decoding;
  for (std::int32_t turns = 0; turns < kMostTurnsToStrike && !struck_ && world_.auditor().violations().empty(); ++turns) {
    if (at_rest && !by_itself && striking_ && here()) {
      strike();
      return;
    }
    const bool worked = world_.turn();
    const RequestState* r = world_.state(subject_);
    if (r == nullptr && world_.asked(subject_).terminals > 0) return;
    if (!worked && !world_.engine().core().scheduler().active()) return;
    // Somebody comes while the subject decodes: a chain comes to rest for that.
    if (!joined && r != nullptr && r->track.peek() != nullptr && r->track.peek()->computed.peek() >= r->track.peek()->extend_end) {
      for (const Request& later : cast_.later) others_.push_back(world_.ask(later));
      joined = striking_ = true;
    }
  }
}

void ExitCellRun::strike() {
  if (struck_) return;
  struck_ = true;
  const RequestState* r = world_.state(subject_);
  if (r->track.peek() != nullptr) in_flight_ = r->track.peek()->in_flight.peek();
  const bool flight = in_flight_ > 0;
  const auto order = [&](Deed deed) { flight ? world_.act_after_turn({.deed = deed}) : world_.act({.deed = deed}); };
  switch (exit_) {
    case Exit::abort: world_.act({.deed = Deed::abort, .of = subject_}); return;
    case Exit::disconnect: world_.act({.deed = Deed::drop, .of = subject_}); return;
    case Exit::deadline: world_.act({.deed = Deed::wait, .nth = static_cast<std::uint64_t>(cast_.subject.deadline_ms) + 1}); return;
    case Exit::allocation: world_.act({.deed = Deed::no_memory}); return;
    case Exit::fault: world_.act({.deed = Deed::fault, .nth = 5, .row = subject_row_}); return;  // in the middle of the step
    case Exit::lost: world_.act({.deed = Deed::lose}); return;
    case Exit::flush: order(Deed::flush); return;
    case Exit::pause: order(Deed::pause); return;
    case Exit::shutdown: order(Deed::stop); return;
    default: return;
  }
}

// A fault belongs to the step that is submitted next: this one.
void ExitCellRun::opened(const decode::StepTicket& ticket, bool /*ahead*/) {
  for (const decode::Share& share : ticket.plan().shares) {
    if (is_subject(share.owner)) subject_row_ = share.first_row;
  }
  if (striking_ && !struck_ && (exit_ == Exit::fault || exit_ == Exit::lost) && here()) strike();
}

void ExitCellRun::launched(const decode::StepTicket& /*ticket*/) {
  if (!striking_ || struck_ || natural_end(exit_) || exit_ == Exit::retract || exit_ == Exit::memory || exit_ == Exit::fault || exit_ == Exit::lost) return;
  const bool flight = phase_ == Phase::chunk_flight || phase_ == Phase::decode_flight || phase_ == Phase::chain_flight;
  if (flight && here()) strike();
}

void ExitCellRun::counted(const decode::StepTicket& /*ticket*/, const decode::StepReceipt& receipt) {
  for (const decode::Settled& one : receipt.shares) {
    if (!is_subject(one.share.owner)) continue;
    settled_chunk_ = one.share.chunk;
    still_flying_ = one.share.track->in_flight.peek();
  }
}

void ExitCellRun::retracting(const RequestState& request) {
  if (exit_ == Exit::retract && is_subject(request.id) && here()) struck_ = true;
}

void ExitCellRun::ending(const RequestState& request, Finish finish) {
  if (!is_subject(request.id)) return;
  ++endings_;
  finish_ = finish;
  if (finish != expected(exit_)) return;
  const decode::Track* t = request.track.peek().get();
  if (t != nullptr && (natural_end(exit_) || struck_)) in_flight_ = std::max(in_flight_, t->in_flight.peek());
  if (exit_ == Exit::memory) {
    struck_ = here();
  } else if (natural_end(exit_)) {
    const Phase phase = settled_chunk_ ? Phase::chunk_flight : still_flying_ > 0 ? Phase::chain_flight : Phase::decode_flight;
    struck_ = phase == phase_;
  }
}

std::string ExitCellRun::judge() {
  Auditor& auditor = world_.auditor();
  if (!auditor.violations().empty()) return auditor.violations().front().clause + ": " + auditor.violations().front().what;
  if (!struck_) return "the request was not in that phase when the exit struck";
  const World::Asked& subject = world_.asked(subject_);
  if (endings_ != 1) return std::to_string(endings_) + " ends";
  if (finish_ != expected(exit_)) return "it ended by " + std::string(to_string(finish_));
  if (exit_ != Exit::disconnect && (subject.terminals != 1 || subject.end.finish != finish_)) return "the client had " + std::to_string(subject.terminals) + " terminal events";
  if (exit_ == Exit::disconnect && subject.terminals != 0) return "the client that had gone was told of the end";
  if (exit_ == Exit::retract && subject.end.usage.retractions < 1) return "the retraction is not counted";
  if (exit_ == Exit::memory && subject.end.error.code != ErrorCode::capacity) return subject.end.error.to_string();
  if (exit_ == Exit::fault && subject.end.error.code != ErrorCode::device_fault) return subject.end.error.to_string();
  if (exit_ == Exit::lost && subject.end.error.code != ErrorCode::device_lost) return subject.end.error.to_string();
  for (const std::int32_t other : others_) {
    const World::Asked& o = world_.asked(other);
    const bool excused = (exit_ == Exit::lost && o.end.finish == Finish::error) || (exit_ == Exit::shutdown && o.end.finish == Finish::cancelled);
    if (o.terminals != 1 || (o.end.finish != Finish::length && !excused)) return "another request ended by " + std::string(to_string(o.end.finish));
  }
  return {};
}

ExitCell ExitCellRun::run() {
  const Footprint before = footprint(world_.engine());
  approach();
  for (int i = 0; i < 2 && struck_ && exit_ == Exit::pause; ++i) world_.turn();  // nothing moves meanwhile
  world_.rest();
  for (std::size_t p = 0; p < static_cast<std::size_t>(device::FaultPoint::count_); ++p) {
    world_.engine().queue().faults().arm(static_cast<device::FaultPoint>(p), 0);
  }
  ExitCell cell{world_.options().loop, exit_, phase_, "clean", judge(), 0};
  if (cell.note.empty()) {
    const std::int32_t canary = world_.ask(cast_.canary);
    if (!world_.rest()) {
      const auto& violations = world_.auditor().violations();
      cell.note = "a request that comes afterwards is not answered" + (violations.empty() ? std::string() : ": " + violations.front().clause + ": " + violations.front().what);
    }
    const Finish end = world_.asked(canary).end.finish;
    const Finish due = exit_ == Exit::shutdown ? Finish::cancelled : exit_ == Exit::lost ? Finish::error : Finish::length;
    if (cell.note.empty() && end != due) cell.note = "a request that comes afterwards ends by " + std::string(to_string(end));
  }
  // Deadlines stand in their list until their time has come.
  if (cast_.subject.deadline_ms > 0) {
    world_.act({.deed = Deed::wait, .nth = static_cast<std::uint64_t>(cast_.subject.deadline_ms) + 1});
    world_.turn();
  }
  world_.act({.deed = Deed::flush});
  if (cell.note.empty()) cell.note = difference(before, footprint(world_.engine()));
  if (cell.note.empty()) world_.auditor().idle();
  if (cell.note.empty() && !world_.auditor().violations().empty()) {
    const Violation& v = world_.auditor().violations().front();
    cell.note = v.clause + ": " + v.what;
  }
  if (!cell.note.empty()) cell.verdict = "FAILED";
  cell.in_flight = in_flight_;
  if (cell.ok()) world_.forget();
  return cell;
}

}  // namespace plumb::conformance
