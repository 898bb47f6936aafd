// A step as three values: what is to be computed (StepPlan), what has been launched (StepTicket), what came of it
// (StepReceipt); and between the last two, what the device left for the host (StepOutput).
//
// Only a StepBook makes tickets and receipts, only an Executor makes outputs, and only from a successful wait. So nothing is
// launched that the book does not know, and nothing is settled that did not run.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "decode/draw_rules.h"
#include "kernels/api/kv_view.h"
#include "kernels/api/row_batch.h"
#include "kv/slot_table.h"

namespace plumb::decode {

class Track;

// What one request has in a step: copied at planning, so that settling reads what was true then (clause C9).
struct Share {
  Track* track = nullptr;
  std::uint64_t owner = 0;         // the request's id
  std::uint64_t incarnation = 0;   // of the track, so that a result finds its owner or nobody (C7)
  std::int32_t row = 0;            // of the page tables
  std::int32_t first_row = 0;      // in StepPlan::batch.rows
  std::int32_t rows = 0;
  std::int32_t first_position = 0;
  std::int32_t first_logit = 0;    // in StepPlan::batch.logits
  std::int32_t logits = 0;
  std::int32_t sampled = -1;       // the logit row that draws the request's next token, or -1
  bool chunk = false;              // rows of the prompt; no token comes of it unless `sampled` says so
  bool from_relay = false;         // its token was not settled when the step was planned
  bool starts_state = false;       // the recurrent state is copied or zeroed before the first row
  kv::PageId state_save = kernels::kNoPage;  // slot that receives the recurrent state after the last row
  std::int32_t end() const { return first_position + rows; }
};

// A recurrent state slot is copied (from >= 0) or zeroed (from < 0).
struct StateCopy {
  std::int32_t from = -1;
  std::int32_t to = 0;
};

// Everything a step needs, decided before it is launched. Plain data.
struct StepPlan {
  kernels::RowBatch batch;
  std::vector<Share> shares;
  std::vector<kv::TableChange> table_writes;
  std::vector<kv::ZeroPage> zero_pages;   // before the forward: what they hold must not matter
  std::vector<StateCopy> state_starts;    // before the forward
  std::vector<StateCopy> state_saves;     // after the forward
  std::vector<std::pair<std::int32_t, std::int32_t>> state_slots;  // (row of the tables, its slot), where it changes
  DrawRules rules;                        // of all logit rows, in their order; or of none
  bool rules_later = false;               // the sample half waits for rules that depend on the step before
  bool want_logits = false;               // keep the logits of every logit row for the host
  bool timing = false;

  void clear();
};

// A plan that has been opened: it has an identity and a time, and the book counts it as launched.
class [[nodiscard]] StepTicket {
 public:
  StepTicket(StepTicket&&) = default;
  StepTicket& operator=(StepTicket&&) = default;
  std::uint64_t id() const { return id_; }
  std::uint64_t opened_ns() const { return opened_ns_; }
  const StepPlan& plan() const { return plan_; }
  // The rules that depend on the step before, once it has settled. REQUIRES: plan().rules_later.
  void supply_rules(DrawRules rules);

 private:
  friend class StepBook;
  StepTicket(std::uint64_t id, std::uint64_t opened_ns, StepPlan plan) : id_(id), opened_ns_(opened_ns), plan_(std::move(plan)) {}
  std::uint64_t id_;
  std::uint64_t opened_ns_;
  StepPlan plan_;
};

// What a step that ran left for the host. The spans stay valid until the executor's ring comes round
// (ExecutorOptions::depth further steps).
class StepOutput {
 public:
  // One token per logit row of the plan.
  std::span<const std::int32_t> tokens() const { return tokens_; }
  // A 64-bit digest of the bits of each logit row, before edits.
  std::span<const std::uint64_t> digests() const { return digests_; }
  // [vocab], after edits; empty unless the plan wanted logits.
  std::span<const float> logits(std::size_t logit_row) const {
    return logits_.empty() ? logits_ : logits_.subspan(logit_row * vocab_, vocab_);
  }
  // The device's length of each row of the page tables.
  std::span<const std::int32_t> lengths() const { return lengths_; }

 private:
  friend class Submission;
  StepOutput() = default;
  std::span<const std::int32_t> tokens_;
  std::span<const std::uint64_t> digests_;
  std::span<const float> logits_;
  std::span<const std::int32_t> lengths_;
  std::size_t vocab_ = 0;
};

// One request's part of a settled step.
struct Settled {
  Share share;
  bool dropped = false;     // the request had ended, or its incarnation is gone: nothing changed but the accounting
  std::int32_t token = -1;  // the token drawn, or -1
  std::uint64_t digest = 0; // of the logits it was drawn from
};

struct StepReceipt {
  std::uint64_t id = 0;
  Status status;  // of the step; when it failed, every share is dropped and what it had counted is given back
  bool behind = false;        // it was chained to a step that failed
  std::uint64_t blamed = 0;   // of a step that failed: the request whose fault it was, or 0 where nobody knows
  std::vector<Settled> shares;
};

}  // namespace plumb::decode
