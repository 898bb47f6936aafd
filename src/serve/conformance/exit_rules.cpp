// Which exit can strike where.
#include <array>
#include <cstddef>

#include "serve/conformance/exit_matrix.h"

namespace plumb::conformance {

const char* to_string(Exit exit) {
  constexpr std::array<const char*, static_cast<std::size_t>(Exit::count_)> kNames{
      "length", "stop token", "stop string", "eos", "context", "abort", "disconnect", "deadline",
      "retract", "memory", "allocation", "fault", "device lost", "flush", "pause", "shutdown"};
  return kNames[static_cast<std::size_t>(exit)];
}

const char* to_string(Phase phase) {
  constexpr std::array<const char*, static_cast<std::size_t>(Phase::count_)> kNames{
      "waiting", "matched", "between chunks", "chunk in flight", "decoding, at rest", "decode in flight", "chain in flight"};
  return kNames[static_cast<std::size_t>(phase)];
}

bool natural_end(Exit exit) {
  return exit == Exit::length || exit == Exit::stop_token || exit == Exit::stop_string || exit == Exit::eos || exit == Exit::context;
}

const char* impossible(Exit exit, Phase phase, bool chained) {
  const bool flight = phase == Phase::chunk_flight || phase == Phase::decode_flight || phase == Phase::chain_flight;
  if (phase == Phase::chain_flight && !chained) return "this loop launches one step at a time";
  switch (exit) {
    case Exit::length:
    case Exit::context:
      if (phase == Phase::chain_flight) return "no step is launched beyond the last token that may be drawn";
      [[fallthrough]];
    case Exit::stop_token:
    case Exit::stop_string:
    case Exit::eos: return flight ? nullptr : "an answer ends when a step that drew a token settles";
    case Exit::retract:
      if (phase == Phase::waiting) return "it holds nothing";
      return flight ? "a plan that runs out of pages waits until nothing is in flight" : nullptr;
    case Exit::memory:
      if (phase == Phase::waiting || phase == Phase::matched) return "a prompt that the empty pools cannot hold is refused before it is queued";
      if (phase == Phase::between_chunks) return "admission has counted the pages of the whole prompt";
      return flight ? "a plan that runs out of pages waits until nothing is in flight" : nullptr;
    case Exit::allocation:
      if (phase == Phase::waiting) return "no step carries it";
      return flight && !chained ? "the next step is begun when the last has settled" : nullptr;
    case Exit::fault:
    case Exit::lost: return flight ? nullptr : "no step carries it";
    case Exit::abort:
    case Exit::disconnect:
    case Exit::deadline:
    case Exit::flush:
    case Exit::pause:
    case Exit::shutdown:
    case Exit::count_: return nullptr;
  }
  return nullptr;
}

}  // namespace plumb::conformance
