// The ghost: what was asked, launched, settled and delivered, as seen from outside.
#include "serve/conformance/auditor.h"

#include <algorithm>
#include <map>
#include <string>

namespace plumb::conformance {

using kernels::kNoPage;

Auditor::Auditor(Engine::Impl& engine) : engine_(engine), scheduler_(engine.core().scheduler()) {
  engine.core().scheduler().watch(this);
  last_step_ = scheduler_.parts().steps.launched.peek();
  last_time_ = scheduler_.book().peek_last().time_ns;
  progress_ = scheduler_.peek_progress();
}

Auditor::~Auditor() { engine_.core().scheduler().watch(nullptr); }

void Auditor::violate(const char* clause, std::string what) {
  if (violations_.size() < 100) violations_.push_back({clause, std::move(what)});
}

bool Auditor::check(const char* clause, bool holds, const char* what) {
  return check(clause, holds, [what] { return std::string(what); });
}

Auditor::Ghost* Auditor::ghost(RequestId id) {
  const auto it = ghosts_.find(id);
  return it == ghosts_.end() ? nullptr : &it->second;
}

void Auditor::asked(RequestId id, const Request& request, const std::vector<std::int32_t>& prompt) {
  Ghost g;
  g.request = request;
  g.prompt = prompt;
  ghosts_.emplace(id, std::move(g));
  ++happened_.requests;
}

void Auditor::aborted(RequestId id) {
  ghosts_.at(id).aborted = true;
  const auto it = scheduler_.peek_requests().find(id);
  if (it == scheduler_.peek_requests().end()) return;
  const decode::Track* track = it->second->track.peek().get();
  if (track == nullptr) {
    ++happened_.aborts_waiting;
  } else if (track->computed.peek() < track->extend_end) {
    ++happened_.aborts_chunk;
  } else {
    ++(track->in_flight.peek() > 0 ? happened_.aborts_chained : happened_.aborts_decode);
  }
}

void Auditor::expect(RequestId id, std::vector<std::int32_t> tokens, std::vector<std::uint64_t> digests) {
  Ghost& g = ghosts_.at(id);
  g.expected = std::move(tokens);
  g.expected_digests = std::move(digests);
  g.has_expected = true;
}

void Auditor::received(RequestId id, const Event& event) {
  Ghost* g = ghost(id);
  if (!check("C11", g != nullptr && g->terminals == 0, "an event after the terminal one, or of nobody")) return;
  if (event.kind == EventKind::logits) ++g->logits;
  if (event.kind == EventKind::token) {
    ++progress_;
    ++happened_.tokens;
    check("C9", event.position == static_cast<std::int32_t>(g->prompt.size() + g->answer.size()), "a token at a position that is not the next");
    if (g->shaken) ++happened_.faults_survived;
    g->shaken = false;
    g->answer.push_back(event.token);
    g->digests.push_back(event.logit_digest);
    check("C11", g->answer.size() <= g->settled_answer.size() && g->settled_answer[g->answer.size() - 1] == event.token, "a delivered token that no counted step drew");
    if (g->has_expected) {
      const std::size_t i = g->answer.size() - 1;
      check("C15", i < g->expected.size() && g->expected[i] == event.token && g->expected_digests[i] == event.logit_digest, [&] {
        return "request " + std::to_string(id) + ": token " + std::to_string(i) + " or the logits it was drawn from are not those of a cold run alone";
      });
    }
    g->text += event.text;
  } else if (event.kind == EventKind::finished) {
    ++progress_;
    ++g->terminals;
    g->finish = event.finish;
    g->text += event.text;
    check("C11", g->answer == g->settled_answer, "tokens were drawn and not delivered");
    check("C11", event.usage.completion_tokens == static_cast<std::int32_t>(g->answer.size()), "the usage does not count the tokens delivered");
    check("C21", event.usage.retractions == g->retractions, "a retraction has not been counted");
    if (g->cached >= 0) check("C21", event.usage.cached_tokens == g->cached, "the usage does not tell the hit of the first admission");
    if (!g->answer.empty()) {
      check("C21", event.usage.completion_ms == static_cast<double>(now() - g->first_token_ns) / 1e6, "the usage does not count from the first token");
    }
    if (event.finish == Finish::length) check("C11", g->logits == g->request.logit_positions.size(), "logits of the prompt were not delivered");
    if (event.finish == Finish::length || event.finish == Finish::context) {
      const text::Tokenizer& tokenizer = engine_.tokenizer();
      text::StreamDecoder decoder(tokenizer, {.continues = true});
      std::string text;
      for (const std::int32_t t : g->answer) text += decoder.feed(t);
      text += decoder.flush();
      check("C11", text == g->text, "the text delivered is not the text of the tokens");
    }
    if (event.finish == Finish::complete || (event.finish == Finish::stop_token && g->request.choices)) {
      const auto& all = *g->request.choices;
      check("C6", std::find(all.begin(), all.end(), g->text) != all.end(), [&] { return "an answer is none of its choices: '" + g->text + "'"; });
    }
    if (g->has_expected && !g->aborted && (event.finish == Finish::length || event.finish == Finish::stop_token || event.finish == Finish::stop_string || event.finish == Finish::complete)) {
      check("C2", g->answer.size() == g->expected.size(), "the answer ended elsewhere than that of a cold run alone");
    }
    if (event.finish == Finish::deadline) ++happened_.deadlines;
    if (event.finish == Finish::error && event.error.code != ErrorCode::capacity) {
      check("C7", g->blamed || event.error.code == ErrorCode::device_lost, [&] { return "a request ends for a fault that was not its: " + event.error.to_string(); });
    }
    if (event.finish == Finish::error && event.error.code == ErrorCode::capacity) {
      ++happened_.capacity_ends;
      check("C8", scheduler_.peek_running().empty() || (scheduler_.peek_running().size() == 1 && scheduler_.peek_running()[0]->id == id), "a request failed for memory while others could have given theirs");
    }
  }
}

void Auditor::admitted(const RequestState& request) {
  Ghost* g = ghost(request.id);
  if (g == nullptr) return;
  const kv::PrefixMatch& match = request.match.peek();
  if (match.length > 0) ++happened_.hits;
  if (match.length > 0 && match.recompute_from < match.length) ++happened_.rebuilt;
  const auto tokens = static_cast<std::int32_t>(g->prompt.size() + g->settled_answer.size());
  if (match.length > 0 && match.length + kv::kPageRows < tokens) ++happened_.branches;
  check("C19", match.length < tokens, "a hit that leaves nothing to compute");
  const decode::Track& track = *request.track.peek();
  check("C12", track.computed.peek() == match.recompute_from && track.sequence.peek_committed() == match.recompute_from, "an admitted request does not begin where its match ends");
  check("C7", incarnations_.insert(track.incarnation).second, "two tracks have one incarnation");
  check("C21", request.tokens.peek().empty(), "an admitted request has its tokens twice");
  check("C21", request.lifetime.peek().admitted_ns > 0, "an admission has no time");
  if (g->cached < 0) g->cached = match.recompute_from;
  if (engine_.tree() != nullptr) {
    std::uint64_t youngest = last_use_;
    engine_.tree()->peek_nodes([&](const kv::PrefixTree::NodeFacts& n) {
      const bool used = std::find(match.path.begin(), match.path.end(), n.id) != match.path.end();
      if (used) check("C14", n.last_use > last_use_, "a node that was just used looks old, and is evicted first");
      youngest = std::max(youngest, n.last_use);
    });
    last_use_ = youngest;
  }
  check("C12", track.extend_end == tokens, "an admitted request does not extend to its last token");
  if (engine_.aux() != nullptr) {
    if (match.recompute_from > 0) ++happened_.state_hits;
    check("C23", match.recompute_from == 0 || track.sequence.peek_aux_source() != kNoPage, "a recurrent sequence starts in the middle without a state");
    check("C23", !match.cold_window, "a recurrent model was given a cold window");
  }
  check_state();
}

void Auditor::opened(const decode::StepTicket& ticket, bool ahead) {
  ++happened_.steps;
  if (ahead) ++happened_.chained;
  const decode::BookStamp stamp = scheduler_.book().peek_last();
  check("C3", ticket.id() == last_step_ + 1 && scheduler_.parts().steps.launched.peek() == ticket.id(), "step numbers are not consecutive");
  check("C3", ticket.opened_ns() >= last_time_ && stamp.step == ticket.id() && stamp.time_ns == ticket.opened_ns(), "the book's stamp is not the step's");
  last_step_ = ticket.id();
  last_time_ = ticket.opened_ns();
  check("C1", engine_.slots().peek_dirty().empty(), "changes of the page tables are left behind, or uploaded twice");
  Open open{ticket.id(), {}, {}};
  const decode::StepPlan& plan = ticket.plan();
  bool chunk = false;
  bool draw_alone = false;
  for (const decode::Share& share : plan.shares) {
    Ghost* g = ghost(share.owner);
    if (!check("C7", g != nullptr && g->terminals == 0, "a step carries a request that has ended")) continue;
    chunk = chunk || share.chunk;
    draw_alone = draw_alone || !share.chunk;
    check("C3", share.track->stamp.peek().step == ticket.id() && share.track->stamp.peek().time_ns == ticket.opened_ns(), "a request's stamp is not its step's");
    check("C7", g->suspect == 0 || plan.shares.size() == 1, "a suspect does not run alone");
    open.parts.push_back({share.owner, share.rows, share.sampled >= 0 ? 1 : 0});
    const Open::Part before = in_flight_of(share.owner);
    check("C2", share.track->drawn.peek() == before.draws + open.parts.back().draws, "the launched draws are not counted");
    check("C13", !share.chunk || share.track->chunk.peek(), "a chunk is launched and nothing says so");
    if (share.chunk) {
      ++happened_.chunks;
      ++g->chunks_in_flight;
      const bool last = share.end() == share.track->extend_end;
      if (!last) ++happened_.middle_chunks;
      check("C13", g->chunks_in_flight == 1, "two chunks of one request in flight");
      check("C13", last || share.sampled < 0, "a token is drawn in the middle of a prompt");
    }
    check("C2", share.end() == share.track->launched.peek(), "a step does not follow what was launched before");
    check("C4", share.track->sequence.row() == share.row && (share.sampled < 0 || share.track->pending.peek() == decode::Pending::relay), "a launched draw is not where the next forward looks");
    for (std::int32_t i = 0; i < share.rows; ++i) {
      const kernels::Row& row = plan.batch.rows[static_cast<std::size_t>(share.first_row + i)];
      check("C2", row.position.value == share.first_position + i && row.sequence == share.row, "a row is not at its share's position");
      if (row.source >= 0) {
        check("C4", row.source == share.row && g->published == share.incarnation, "a row takes its token from a cell where its owner has published nothing");
      }
      for (std::size_t c = 0; c < engine_.layout().classes.size(); ++c) {
        if ((row.write_classes >> c & 1U) == 0) continue;
        const auto cell = engine_.layout().classes[c].residency.cell(row.position);
        const kv::PageId page = engine_.slots().peek(static_cast<std::int32_t>(c), share.row, cell.table_index);
        if (check("C8", page != kNoPage, "a row of an opened step has no slot")) open.written.emplace_back(c, page);
      }
    }
    if (share.sampled >= 0) {
      const bool published = plan.batch.logits[static_cast<std::size_t>(share.sampled)].relay_cell == share.row;
      g->published = published ? share.incarnation : 0;
    }
    if (engine_.aux() != nullptr) {
      const bool first = share.first_position == 0 || share.starts_state;
      if (share.starts_state) ++happened_.state_starts;
      const auto starts = std::count_if(plan.state_starts.begin(), plan.state_starts.end(), [&](const decode::StateCopy& s) { return s.to == share.track->sequence.peek_aux(); });
      check("C24", starts == (first ? 1 : 0), "the first step of a recurrent sequence does not start its state, or a later one does");
      if (share.state_save != kNoPage) open.written.emplace_back(engine_.layout().classes.size(), share.state_save);
    }
  }
  if (chunk && draw_alone) ++happened_.mixed;
  if (plan.rules_later) ++happened_.late_edits;
  std::sort(open.written.begin(), open.written.end());
  open.written.erase(std::unique(open.written.begin(), open.written.end()), open.written.end());
  open_.push_back(std::move(open));
}

void Auditor::settled(const decode::StepTicket& ticket, const decode::StepReceipt& receipt) {
  check("C5", !open_.empty() && open_.front().id == ticket.id(), "steps settle out of order");
  if (!receipt.status.ok()) {
    learn_failure(ticket, receipt);
    ++happened_.failed_steps;
    const Error& error = receipt.status.error();
    check("C2", may_fail_ && error.field != "length", [&] { return "a step fails and nobody broke it: " + error.to_string(); });
    std::size_t entries = 0;
    for (const kv::KvClass& c : engine_.layout().classes) entries += static_cast<std::size_t>(c.geometry.table_pages) * static_cast<std::size_t>(c.geometry.sequences);
    check("C1", engine_.slots().peek_dirty().size() >= entries, "after a failed step the device's page tables are taken for known");
  }
  for (const decode::Settled& one : receipt.shares) {
    if (one.dropped) {
      ++happened_.refunds;
      if (receipt.status.ok()) ++happened_.late_stops;
      check("C7", one.token < 0, "a dropped result has a token");
    }
    Ghost* g = ghost(one.share.owner);
    if (!check("C7", g != nullptr, "a result of nobody")) continue;
    if (one.share.chunk) --g->chunks_in_flight;
    if (one.dropped) continue;
    if (one.share.chunk) ++progress_;
    if (g->suspect > 0 && one.share.end() >= g->suspect) {
      g->suspect = 0;
      ++happened_.suspects_cleared;
    }
    if (one.share.sampled >= 0) {
      check_edits(ticket, one.share, *g);
      if (g->settled_answer.empty()) g->first_token_ns = now();
      g->settled_answer.push_back(one.token);
      if (g->dropped) ++progress_;
    }
    learn_committed(*g, one.share.end());
    // The track may be gone already: released with the request's end.
    const auto request = scheduler_.peek_requests().find(one.share.owner);
    if (request == scheduler_.peek_requests().end() || request->second->track.peek() == nullptr) continue;
    const decode::Track& track = *request->second->track.peek();
    check("C12", !one.share.chunk || one.share.end() < track.extend_end || track.computed.peek() >= track.extend_end, "an extend settled and is not computed");
    check("C16", track.computed.peek() == one.share.end(), "a settled share did not advance its request");
    check_kept(one.share, *request->second, *g);
  }
  if (!open_.empty()) open_.erase(open_.begin());
  check_tracks();
}

// What a settled share leaves for later: snapshots at the prompt's end, counts of what was told, the time of the first token.
void Auditor::check_kept(const decode::Share& share, const RequestState& request, Ghost& ghost) {
  const auto& wanted = ghost.request.logit_positions;
  const auto due = std::count_if(wanted.begin(), wanted.end(), [&](std::int32_t p) { return p < share.end(); });
  ghost.due = std::max(ghost.due, static_cast<std::int32_t>(due));  // one that was computed again is not told again
  check("C11", request.emitted.peek().logits == ghost.due, "logits of the prompt are told twice, or not at all");
  check("C21", ghost.settled_answer.empty() || request.lifetime.peek().first_token_ns > 0, "the first token has no time");
  const decode::Track& track = *request.track.peek();
  if (engine_.tree() == nullptr || !share.chunk || share.end() != track.extend_end || track.sequence.peek_node() == kv::kRoot) return;
  engine_.tree()->peek_nodes([&](const kv::PrefixTree::NodeFacts& n) {
    if (n.id == track.sequence.peek_node()) check("C15", n.snapshot, "the end of a prompt is not kept for a branch");
  });
}

Auditor::Open::Part Auditor::in_flight_of(RequestId id) const {
  Open::Part all{id, 0, 0};
  for (const Open& o : open_) {
    for (const Open::Part& p : o.parts) {
      if (p.owner != id) continue;
      all.rows += p.rows;
      all.draws += p.draws;
    }
  }
  return all;
}

void Auditor::paused() {
  ++happened_.pauses;
  check("C22", scheduler_.peek_mode() == Mode::paused && open_.empty(), "a pause was ordered, and work goes on");
}

void Auditor::resumed() { check("C22", scheduler_.peek_mode() == Mode::running, "work was ordered to go on, and does not"); }

// Nothing has been delivered or released yet: the book's accounts alone.
void Auditor::counted(const decode::StepTicket& /*ticket*/, const decode::StepReceipt& receipt) {
  for (const decode::Settled& one : receipt.shares) {
    const decode::Track& track = *one.share.track;
    const Open::Part flying = in_flight_of(one.share.owner);  // this step included
    const std::int32_t left = flying.rows - one.share.rows;
    check("C2", track.launched.peek() - track.computed.peek() == left, "a settled step is still counted as launched, or its rows were given back twice");
    check("C7", track.in_flight.peek() >= 0 && (track.in_flight.peek() > 0) == (left > 0), "flights are not counted");
  }
}

void Auditor::queued(const RequestState& request) {
  check("C25", request.request.deadline_ms == 0 || scheduler_.timed(request), "nobody looks at the request's deadline");
  check("C18", !scheduler_.peek_blocked(), "a request comes, and the queue stays blocked");
  check("C17", request.stage.peek() == Stage::waiting && scheduler_.waits(request), "a request that came does not wait");
}

void Auditor::refused(const RequestState& request) {
  check("C18", scheduler_.peek_blocked(), "the head of the queue does not fit, and nothing says so");
  check("C17", scheduler_.waits(request), "a refused request does not wait");
}

void Auditor::retracted(const RequestState& request) {
  ++happened_.retractions;
  Ghost* g = ghost(request.id);
  if (g == nullptr) return;
  ++g->retractions;
  g->published = 0;
  check("C17", scheduler_.waits(request), "a retracted request does not wait");
  check("C18", !scheduler_.peek_blocked(), "memory came back, and the queue stays blocked");
  check("C21", request.track.peek() == nullptr && request.match.peek().length == 0, "a retracted request keeps what its positions meant");
  check("C21", request.lifetime.peek().retractions == g->retractions, "a retraction has not been counted");
}

// Where nobody fetches the terminal event, it is counted here.
void Auditor::ending(const RequestState& request, Finish finish) {
  Ghost* g = ghost(request.id);
  if (g == nullptr || !g->dropped) return;
  ++progress_;
  ++g->terminals;
  g->finish = finish;
}

void Auditor::released(RequestId id) {
  Ghost* g = ghost(id);
  check("C18", !scheduler_.peek_blocked(), "memory came back, and the queue stays blocked");
  check("C20", g != nullptr && scheduler_.peek_requests().find(id) == scheduler_.peek_requests().end(), "a released request is still there");
}

void Auditor::flushed() {
  ++happened_.flushes;
  check("C22", open_.empty() && engine_.queue().live().in_flight == 0, "flushed under steps in flight");
  if (engine_.tree() == nullptr) return;
  bool only_locked = true;
  engine_.tree()->peek_nodes([&](const kv::PrefixTree::NodeFacts& n) { only_locked = only_locked && n.locks > 0; });
  check("C22", only_locked, "a flush left nodes that nobody stands on");
}

void Auditor::told(const Scheduler::Health& health) {
  check("C25", health.progress == progress_, [&] { return "progress says " + std::to_string(health.progress) + ", seen from outside " + std::to_string(progress_); });
}

void Auditor::turned(std::uint64_t began_ns) {
  check_state();
  for (const auto& [id, request] : scheduler_.peek_requests()) {
    check("C7", request->suspect.peek() == ghosts_.at(id).suspect, "who must run alone is not known, or no longer the truth");
    check("C25", request->stage.peek() == Stage::closing || began_ns < request->deadline_ns(), "a deadline has passed and the request goes on");
  }
  if (scheduler_.peek_blocked() && scheduler_.peek_mode() == Mode::running) {
    check("C18", !engine_.core().scheduler().head_fits(), "the head of the queue fits and is not let in");
  }
}

void Auditor::idle() {
  check_state();
  for (const auto& [id, g] : ghosts_) {
    check("C11", g.terminals == 1, [&] { return "request " + std::to_string(id) + " has " + std::to_string(g.terminals) + " terminal events"; });
  }
  check("C5", open_.empty() && engine_.queue().live().in_flight == 0 && scheduler_.peek_flights() == 0, "steps in flight at idle");
  check("C20", scheduler_.peek_requests().empty() && scheduler_.peek_running().empty() && scheduler_.peek_waiting() == 0, "requests left at idle");
  check("C20", engine_.slots().peek_free_rows().size() == static_cast<std::size_t>(engine_.slots().rows()), "rows left at idle");
  for (std::size_t c = 0; c < engine_.layout().classes.size(); ++c) check("C20", engine_.pool(c).peek_limbo().empty(), "pages wait at idle");
  check("C25", !scheduler_.active(), "active at idle");
}

}  // namespace plumb::conformance
