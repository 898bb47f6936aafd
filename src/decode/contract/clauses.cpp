// The clauses. Obligations and readers are those of the project's contract; `check` says how the suite looks.
#include "decode/contract/contract.h"

namespace plumb::decode {
namespace {

constexpr Clause kClauses[] = {
    {"C1", "every emitted position has a recorded, owned slot in every layer class that still holds it", "attention, prefix insertion, session files, release",
     "lost cache; another request's rows overwritten", "every live position's table entry is the page its sequence holds; no page has two owners unless the tree shares it"},
    {"C2", "once settled, all length counters (device, host, committed, allocated) have advanced by exactly the tokens emitted, and agree; until then the launched length leads by at most the chain",
     "prefix key, budget, window eviction, state boundary", "lost or inflated cache; wrong eviction point", "launched, computed, committed, device length and the client's count agree at rest; the lead is bounded in flight"},
    {"C3", "each step has an identity and a time, on the ticket and on every request it carries", "watchdog, profiler, metrics", "crash; false kill; drift",
     "ids are consecutive, times never fall, and ticket, book and tracks carry the same stamp"},
    {"C4", "a cross-step relay is published before its owner's first read, or is unread on every path; its slot follows the owner", "next forward, mixed batch gather",
     "garbage token; crash", "every row that takes its token from a relay cell finds the last step of its owner published there"},
    {"C5", "\"is work in flight?\" covers every loop, queue and staging area", "flush, memory release, pause, health, idle work", "reset under live work; no-op flush",
     "the scheduler's count equals steps opened and not settled, whichever loop launched them; at flush and idle the device has nothing in flight"},
    {"C6", "host sampling state (constraints, penalties, logit edits) includes token N before N+1 is sampled, or N+1 is not chained", "sampler", "invalid or unpenalised output",
     "the edits and the allowed tokens a step was sampled with are those of all tokens before it"},
    {"C7", "a result launched before finish, retract, abort or re-admission, and one of a step that failed, changes nothing but its own accounting, matched by incarnation; a fault ends whose it is", "output, slots",
     "duplicate token; double free", "a dropped result leaves tokens, lengths and events as they were; who ends for a fault was named by it or alone in the step, and suspects run alone"},
    {"C8", "every step that allocates, chained or not, first passes the evict/retract valve; the last request fails alone", "allocator", "out of memory kills the engine",
     "every row of an opened step has its slots; a request fails for memory only when it runs alone"},
    {"C9", "late processing reads only launch-time snapshots", "logprobs, state, stream", "off-by-one-step results",
     "positions and digests of delivered tokens are those of the share that drew them"},
    {"C10", "a row, slot or page is not reissued until all earlier-launched readers and writers are done", "next owner", "cross-request corruption",
     "no page of an unsettled step is free; free lists hold nothing twice and nothing that is referred to"},
    {"C11", "each token is delivered once, the terminal event once, on every exit path", "client", "hang; duplicate text",
     "the client's tokens and text are the track's; one terminal event, nothing after it, nobody left without"},
    {"C12", "after an extend: committed == extend end, row prefix == matched slots, tokens == slots", "everything row-indexed", "wrong KV attended",
     "a settled last chunk leaves computed at the extend end; shared rows are the tree's pages"},
    {"C13", "at most one chunk in progress per request; middle chunks launched == processed; no token meanwhile; a chunk is always resumed or released", "result router",
     "live request finished; leak", "chunks in flight per request, and the flag that says so; no draw before the last"},
    {"C14", "insertion into the prefix tree re-homes: duplicates freed and row remapped; protected length, prefix and lock move together", "decode, release",
     "use after free; evicted while in use", "the node a sequence stands on is exactly its committed pages; locks equal the sequences below"},
    {"C15", "only complete, ordered, aligned, token-determined content is inserted", "any later hit", "silently wrong output",
     "every node spells a text that was computed; hits give the bits of a cold run"},
    {"C16", "decode rows riding in a prefill batch settle exactly as in a decode step", "counters, release", "leaked row or slot", "C2 and the reference answer, on mixed steps"},
    {"C17", "admission is a transaction: whatever matching staged is undone on reject and on any other exit from the queue", "pools, locks", "slot or lock leak",
     "references on every page equal its holders; rows are free or owned, always"},
    {"C18", "cached yes/no latches are invalidated by every event that could flip them", "admission", "starvation; deadlock", "a blocked head really does not fit"},
    {"C19", "the budget equals what will be allocated; infeasible requests fail, feasible ones progress; a hit leaves at least one token to compute", "allocator, queue head",
     "livelock or out of memory", "every match leaves a token; every workload ends within its bound of turns"},
    {"C20", "one release routine for all exits and all owners, each freed once", "pools", "leak; double free; doubled footprint", "at idle every row is free and every page free or the tree's"},
    {"C21", "transfer of ownership clears the source; retract resets every position-derived field and keeps lifetime counters", "next allocation", "dangling reuse",
     "a retracted request keeps its tokens and counters, and has no track"},
    {"C22", "pause, flush and shutdown drain queued device work first and clear every index into a pool together", "loop, flush", "resurrected requests; stale reads",
     "after a flush no unlocked node is left and nothing was in flight"},
    {"C23", "a state snapshot carries the exact length it stands for; a usable hit is the shortest across state kinds", "prefix match", "recurrence from a wrong state",
     "a recurrent sequence starts at a node that holds a state, or at nothing"},
    {"C24", "an auxiliary slot is zeroed or copied before first read; roles conserve; doubtful state is not inserted", "forward, tree", "garbage state; leak",
     "the first step of a recurrent sequence starts its state; slots are free, live or cached, and counted"},
    {"C25", "a progress counter moves iff work progresses; the active flag is true iff work is owed", "watchdog, leak check", "false kill; unseen hang",
     "progress equals chunks, tokens and ends seen from outside; idle means nobody waits"},
};

}  // namespace

std::span<const Clause> clauses() { return kClauses; }

int clause_index(std::string_view id) {
  for (std::size_t i = 0; i < std::size(kClauses); ++i) {
    if (kClauses[i].id == id) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace plumb::decode
