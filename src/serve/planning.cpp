// Planning: which rows the next step computes, and the slots they are given.
//
// Requests are taken oldest first; chunks of prompts leave room for the decode rows of those behind them. Every row's slot is reserved
// here, through the same valve whatever the loop: evict, then retract the youngest, then the last request fails alone (C8).
#include <algorithm>
#include <string>

#include "base/check.h"
#include "serve/scheduler.h"

namespace plumb {

using decode::Launch;

namespace {

// How often a decoding sequence of a recurrent model leaves its state in the tree: a branch loses at most so many positions.
constexpr std::int32_t kStateInterval = 4 * kv::kPageRows;

}  // namespace

Launch Scheduler::plan(bool ahead, decode::StepPlan& plan) {
  const auto in_prompt = [](const RequestState* r) {
    const decode::Track& track = *r->track.get();
    return track.launched.get() < track.extend_end;
  };
  auto decoding = static_cast<std::int32_t>(
      std::count_if(running_.get().begin(), running_.get().end(), [&](const RequestState* r) { return !in_prompt(r); }));
  const Launch alone = plan_suspect(ahead, plan);
  if (alone == Launch::needs_rest) return alone;
  // Oldest first: making room retracts the youngest, which is never in the plan yet. By index, since the list may shorten.
  for (std::size_t i = 0; alone != Launch::launched && i < running_.get().size(); ++i) {
    RequestState& r = *running_.get()[i];
    if (r.stage.get() != Stage::running) continue;
    const bool chunk = in_prompt(&r);
    if (!chunk) --decoding;
    const Launch launch = !chunk ? plan_decode(r, plan) : ahead ? Launch::needs_rest : plan_chunk(r, decoding, plan);
    if (launch == Launch::needs_rest) return launch;
  }
  if (plan.batch.rows.empty()) return Launch::nothing;
  // Only now, when nothing can give the plan up any more: a slot taken for a plan that is dropped would belong to nobody.
  if (recurrent()) {
    for (decode::Share& share : plan.shares) plan_state(share, plan);
  }
  parts_.slots.take(plan.table_writes, plan.zero_pages);
  const bool ruled = std::any_of(plan.shares.begin(), plan.shares.end(), [&](const decode::Share& s) {
    return s.sampled >= 0 && !find(s.owner)->shaping.empty();
  });
  plan.rules_later = std::any_of(plan.shares.begin(), plan.shares.end(), [&](const decode::Share& s) {
    return s.sampled >= 0 && s.from_relay && find(s.owner)->follows_tokens();
  });
  if (ruled && !plan.rules_later) plan.rules = gather_rules(plan);
  return Launch::launched;
}

// Room for positions below `end`. `launched`: there is. `nothing`: the request is not running any more.
Launch Scheduler::make_room(RequestState& request, std::int32_t end) {
  for (;;) {
    const Status reserved = request.track.get()->sequence.reserve(end);
    if (reserved.ok()) return Launch::launched;
    if (in_flight() > 0) return Launch::needs_rest;  // pages may be waiting for steps to settle; and nobody is retracted in flight
    RequestState* youngest = running_.get().back();
    if (running_.get().size() == 1) {
      this->end(request, Finish::error, -1, &reserved.error());
      return Launch::nothing;
    }
    retract(*youngest);
    if (youngest == &request) return Launch::nothing;
  }
}

void Scheduler::add_row(const RequestState& request, std::int32_t position, decode::StepPlan& plan) const {
  const decode::Track& track = *request.track.get();
  kernels::Row row{.position = {position}, .sequence = track.sequence.row()};
  if (position < track.length()) {
    row.token = track.tokens.get()[static_cast<std::size_t>(position)];
  } else {
    PLUMB_CHECK(track.pending.get() == decode::Pending::relay);
    device_.relay.read();
    row.source = track.sequence.row();
  }
  if (position < request.match.get().length) row.write_classes = window_classes_;  // the full-attention rows there are shared
  plan.batch.rows.push_back(row);
}

void Scheduler::add_draw(const RequestState& request, std::int32_t position, decode::StepPlan& plan, decode::Share& share) const {
  const Sampling& s = request.request.sampling;
  share.sampled = static_cast<std::int32_t>(plan.batch.logits.size());
  ++share.logits;
  // The token goes to the cell of its owner's row, where a chained step finds it. No other loop reads it there.
  const bool publish = parts_.loop.entry->chained && device_.relay.write();
  plan.batch.logits.push_back({.row = static_cast<std::int32_t>(plan.batch.rows.size()) - 1,
                               .params = {.temperature = s.temperature,
                                          .top_p = s.top_p,
                                          .min_p = s.min_p,
                                          .top_k = s.top_k,
                                          .seed = s.seed,
                                          .choice = s.choice,
                                          .position = position + 1},
                               .relay_cell = publish ? request.track.get()->sequence.row() : -1});
  if (request.request.token_logits) plan.want_logits = true;
}

Launch Scheduler::plan_decode(RequestState& request, decode::StepPlan& plan) {
  const decode::Track& track = *request.track.get();
  const std::int32_t position = track.launched.get();
  const std::int32_t drawn = track.length() + track.drawn.get();  // tokens there are or will be
  if (drawn - request.prompt_tokens >= request.request.max_tokens || position >= parts_.info.context) return Launch::nothing;
  if (position >= drawn) return Launch::nothing;
  const auto& program = parts_.executor.program();
  if (static_cast<std::int32_t>(plan.batch.rows.size()) >= program.max_rows || static_cast<std::int32_t>(plan.batch.logits.size()) >= program.max_logit_rows) {
    return Launch::nothing;
  }
  if (!edits_fit(request, plan)) return Launch::nothing;  // its turn comes in another step
  if (const Launch room = make_room(request, position + 1); room != Launch::launched) return room;
  decode::Share share{.track = request.track.get().get(),
                      .owner = track.owner,
                      .incarnation = track.incarnation,
                      .row = track.sequence.row(),
                      .first_row = static_cast<std::int32_t>(plan.batch.rows.size()),
                      .rows = 1,
                      .first_position = position,
                      .first_logit = static_cast<std::int32_t>(plan.batch.logits.size()),
                      .from_relay = position >= track.length()};
  add_row(request, position, plan);
  add_draw(request, position, plan, share);
  plan.batch.rows.back().advance = device_.length.write();
  plan.shares.push_back(share);
  return Launch::launched;
}

// `decoding`: requests after this one that will want a row and a draw.
Launch Scheduler::plan_chunk(RequestState& request, std::int32_t decoding, decode::StepPlan& plan) {
  const decode::Track& track = *request.track.get();
  const std::int32_t start = track.launched.get();
  if (start >= track.extend_end || track.chunk.get()) return Launch::nothing;
  const auto& program = parts_.executor.program();
  const std::int32_t rows_left = std::min(chunk_rows_, program.max_rows - decoding - static_cast<std::int32_t>(plan.batch.rows.size()));
  std::int32_t logits_left = program.max_logit_rows - decoding - static_cast<std::int32_t>(plan.batch.logits.size());
  const auto& wanted = request.request.logit_positions;
  auto next = static_cast<std::size_t>(request.emitted.get().logits);
  const bool draws = request.request.max_tokens > track.extend_end - request.prompt_tokens;
  // How far: rows, logits, and for recurrent models where the state is to be kept.
  std::int32_t end = start;
  for (std::size_t n = next; end < track.extend_end && end - start < rows_left; ++end) {
    const bool logits = n < wanted.size() && wanted[n] == end;
    const bool last = end + 1 == track.extend_end && draws;
    if ((logits || last) && logits_left-- <= 0) break;
    if (last && !edits_fit(request, plan)) break;
    if (logits) ++n;
  }
  if (recurrent() && parts_.tree != nullptr) end = state_boundary(request, start, end);
  if (end == start) return Launch::nothing;
  if (const Launch room = make_room(request, end); room != Launch::launched) return room;

  decode::Share share{.track = request.track.get().get(),
                      .owner = track.owner,
                      .incarnation = track.incarnation,
                      .row = track.sequence.row(),
                      .first_row = static_cast<std::int32_t>(plan.batch.rows.size()),
                      .rows = end - start,
                      .first_position = start,
                      .first_logit = static_cast<std::int32_t>(plan.batch.logits.size()),
                      .chunk = true};
  const bool advance = device_.length.write();
  for (std::int32_t position = start; position < end; ++position) {
    add_row(request, position, plan);
    plan.batch.rows.back().advance = advance;
    const bool logits = next < wanted.size() && wanted[next] == position;
    if (logits) ++next;
    if (position + 1 == track.extend_end && draws) {
      add_draw(request, position, plan, share);
    } else if (logits) {
      plan.batch.logits.push_back({.row = static_cast<std::int32_t>(plan.batch.rows.size()) - 1, .params = {}});
      ++share.logits;
    }
    if (logits) plan.want_logits = true;
  }
  plan.shares.push_back(share);
  return Launch::launched;
}

// Where a chunk of a recurrent model ends that may reach `end`: its state is kept there and nowhere inside. At the last page boundary
// before the next place where conversations branch, or else before `end`; at `end` where there is none after `start`.
std::int32_t Scheduler::state_boundary(const RequestState& request, std::int32_t start, std::int32_t end) const {
  const auto boundary = [](std::int32_t position) { return position / kv::kPageRows * kv::kPageRows; };
  for (const std::int32_t branch : request.request.branch_points) {
    if (boundary(branch) > start && boundary(branch) < end) return boundary(branch);
  }
  return boundary(end) > start ? boundary(end) : end;
}

// Where the recurrent state comes from before the step, and where it is kept after it (C23, C24).
void Scheduler::plan_state(decode::Share& share, decode::StepPlan& plan) {
  const kv::Sequence& sequence = share.track->sequence;
  if (share.first_position == find(share.owner)->match.get().recompute_from) {
    share.starts_state = true;
    plan.state_slots.emplace_back(sequence.row(), sequence.aux_slot());
    plan.state_starts.push_back({sequence.aux_source(), sequence.aux_slot()});
  }
  if (parts_.tree == nullptr || share.end() % kv::kPageRows != 0) return;
  if (!share.chunk && share.end() % kStateInterval != 0) return;
  auto slot = parts_.aux->acquire();
  if (!slot && parts_.tree->evict_aux(1) > 0) slot = parts_.aux->acquire();
  if (!slot) return;  // the state is not kept here; a branch starts from an earlier one
  share.state_save = *slot;
  plan.state_saves.push_back({sequence.aux_slot(), *slot});
}

// One token more than has been accepted for each step that may be in flight: it may be a new one.
std::int64_t Scheduler::edit_count(const RequestState& request) const {
  std::int64_t edits = 0;
  for (const auto& state : request.shaping) edits += state->most_edits(parts_.loop.k + 1);
  return edits;
}

bool Scheduler::edits_fit(const RequestState& request, const decode::StepPlan& plan) const {
  if (request.shaping.empty()) return true;
  std::int64_t edits = edit_count(request);
  for (const decode::Share& s : plan.shares) edits += s.sampled >= 0 ? edit_count(*find(s.owner)) : 0;
  return edits <= max_edits_;
}

// Requests stand in the plan in the order of their logit rows.
decode::DrawRules Scheduler::gather_rules(const decode::StepPlan& plan) const {
  decode::DrawRules rules(parts_.info.vocab);
  for (const decode::Share& share : plan.shares) {
    for (std::int32_t i = share.first_logit; i < share.first_logit + share.logits; ++i) {
      rules.next_row();
      if (i != share.sampled) continue;
      const RequestState* request = find(share.owner);
      if (request == nullptr) continue;
      for (const auto& state : request->shaping) state->shape(rules);
    }
  }
  return rules;
}

}  // namespace plumb
