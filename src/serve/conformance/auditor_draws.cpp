// What a step was drawn with, and whose fault a failed one was: worked out anew from what was asked.
#include <algorithm>
#include <map>
#include <string>

#include "serve/conformance/auditor.h"

namespace plumb::conformance {

// What the draw should have been edited with: penalties of every token before it.
void Auditor::check_edits(const decode::StepTicket& ticket, const decode::Share& share, const Ghost& ghost) {
  const decode::StepPlan& plan = ticket.plan();
  const Sampling& s = ghost.request.sampling;
  const bool counts = s.repetition_penalty != 1 || s.frequency_penalty != 0 || s.presence_penalty != 0;
  std::map<std::int32_t, std::int32_t> occurs;
  if (counts) {
    for (const std::int32_t t : ghost.settled_answer) ++occurs[t];
  }
  const std::size_t wanted = occurs.size() + ghost.request.logit_bias.size();
  const auto edits = plan.rules.edits_of(share.sampled);
  if (counts) ++happened_.penalised;
  bool same = edits.size() == wanted;
  for (std::size_t i = 0; same && i < occurs.size(); ++i) {
    const auto it = occurs.find(edits[i].token);
    same = it != occurs.end() && edits[i].scale == s.repetition_penalty && edits[i].add == -(static_cast<float>(it->second) * s.frequency_penalty + s.presence_penalty);
  }
  check("C6", same, [&] { return "a draw was edited with " + std::to_string(edits.size()) + " changes, and " + std::to_string(wanted) + " were due"; });
  check_mask(plan.rules.mask_at(share.sampled), ghost);
}

// The tokens a constrained draw may give, worked out anew from the texts: those that lead along one of them, and the end at one.
void Auditor::check_mask(std::span<const std::uint32_t> mask, const Ghost& ghost) {
  if (!ghost.request.choices) {
    check("C6", mask.empty(), "a draw is constrained, and nobody asked for it");
    return;
  }
  ++happened_.constrained;
  const text::Tokenizer& tokenizer = engine_.tokenizer();
  const std::string said = tokenizer.decode(ghost.settled_answer, {.continues = true});
  const auto& ends = engine_.info().eos_ids;
  const bool whole = std::find(ghost.request.choices->begin(), ghost.request.choices->end(), said) != ghost.request.choices->end();
  std::int32_t wrong = mask.empty() ? 0 : -1;
  for (std::int32_t t = 0; t < tokenizer.vocab_size() && wrong < 0; ++t) {
    const bool end = std::find(ends.begin(), ends.end(), t) != ends.end();
    const std::string then = said + std::string(tokenizer.token_bytes(t));
    const bool leads = !end && !tokenizer.is_special(t) && then.size() > said.size() && std::any_of(ghost.request.choices->begin(), ghost.request.choices->end(), [&](const std::string& c) { return c.starts_with(then); });
    const bool allowed = (mask[static_cast<std::size_t>(t / 32)] >> (t % 32) & 1U) != 0;
    if (allowed != (end ? whole : leads)) wrong = t;
  }
  check("C6", wrong < 0, [&] { return "after '" + said + "' the allowed tokens are not those of the choices, the first is " + std::to_string(wrong); });
}

// Whose a failure is: the request it names, the one that was alone, or nobody's yet: then all are suspect.
void Auditor::learn_failure(const decode::StepTicket& ticket, const decode::StepReceipt& receipt) {
  const auto& shares = ticket.plan().shares;
  for (const decode::Share& share : shares) {
    Ghost* g = ghost(share.owner);
    if (g == nullptr || g->terminals > 0) continue;
    g->shaken = true;
    if (receipt.behind) continue;
    g->blamed = receipt.blamed == share.owner;
    if (receipt.blamed == 0) g->suspect = share.end();
  }
  if (receipt.behind) return;
  // A lost device is nobody's fault, and ends everybody.
  const bool lost = receipt.status.error().code == ErrorCode::device_lost;
  check("C7", lost || receipt.blamed != 0 || shares.size() > 1, "a fault of a step with one request is nobody's");
  if (receipt.blamed != 0 && shares.size() > 1) ++happened_.named_faults;
}

}  // namespace plumb::conformance
