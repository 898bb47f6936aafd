// The counters of what really happened, added up and listed.
#include "serve/conformance/auditor.h"

namespace plumb::conformance {

void Happened::add(const Happened& o) {
  steps += o.steps, chained += o.chained, mixed += o.mixed, chunks += o.chunks, middle_chunks += o.middle_chunks;
  hits += o.hits, branches += o.branches, rebuilt += o.rebuilt;
  retractions += o.retractions, late_stops += o.late_stops, failed_steps += o.failed_steps, refunds += o.refunds, late_edits += o.late_edits;
  capacity_ends += o.capacity_ends, flushes += o.flushes, pauses += o.pauses, deadlines += o.deadlines, penalised += o.penalised, constrained += o.constrained;
  named_faults += o.named_faults, suspects_cleared += o.suspects_cleared, faults_survived += o.faults_survived;
  aborts_waiting += o.aborts_waiting, aborts_chunk += o.aborts_chunk, aborts_decode += o.aborts_decode, aborts_chained += o.aborts_chained;
  blocked += o.blocked, state_starts += o.state_starts, state_hits += o.state_hits, tokens += o.tokens, requests += o.requests;
}

std::vector<std::pair<const char*, std::uint64_t>> Happened::list() const {
  return {{"requests", requests}, {"tokens", tokens}, {"steps", steps}, {"chained steps", chained}, {"mixed steps", mixed},
          {"chunks", chunks}, {"middle chunks", middle_chunks}, {"prefix hits", hits}, {"branches", branches}, {"rebuilt windows", rebuilt},
          {"retractions", retractions}, {"late stops", late_stops}, {"failed steps", failed_steps}, {"refunds", refunds},
          {"late edits", late_edits}, {"penalised draws", penalised}, {"constrained draws", constrained},
          {"ends for memory", capacity_ends}, {"flushes", flushes}, {"pauses", pauses},
          {"faults of one row", named_faults}, {"suspects cleared", suspects_cleared}, {"faults survived", faults_survived},
          {"deadlines", deadlines}, {"blocked heads", blocked}, {"aborts waiting", aborts_waiting}, {"aborts in a prompt", aborts_chunk},
          {"aborts in decode", aborts_decode}, {"aborts in a chain", aborts_chained}, {"state starts", state_starts}, {"state hits", state_hits}};
}

}  // namespace plumb::conformance
