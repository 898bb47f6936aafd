// The exit matrix: every way out of the engine, struck in every phase of a request's life, in every loop, on really opened engines.
//
// A cell is driven through the simulation until the request really stands in the phase, the exit strikes, and when everything is
// at rest again the engine holds exactly what it held before (Footprint), every client has had one terminal event, whoever else
// was there has the answer of a cold run alone, and a request asked afterwards has too. A cell that cannot be is listed with the
// reason; one that was not reached fails.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "serve/conformance/suite.h"
#include "serve/conformance/world.h"

namespace plumb::conformance {

enum class Exit : std::uint8_t {
  length,       // max_tokens
  stop_token,   // one of the request's
  stop_string,
  eos,          // one of the model's
  context,      // the context is full
  abort,        // by the client
  disconnect,   // the client is gone
  deadline,
  retract,      // gives its memory to an older request, comes back and ends as if nothing had been
  memory,       // outgrows the pools all alone (T18)
  allocation,   // no command buffer for the next step
  fault,        // a launch of its step fails
  lost,         // the device is lost
  flush,        // the prefix tree is emptied; the request goes on
  pause,        // and resume; the request goes on
  shutdown,
  count_,
};
const char* to_string(Exit exit);

// The answer itself ends the request.
bool natural_end(Exit exit);

enum class Phase : std::uint8_t {
  waiting,        // in the queue
  matched,        // admitted: row, pages and locks of its match are held, nothing is launched
  between_chunks, // some of its prompt is computed, nothing in flight
  chunk_flight,   // a chunk in flight
  decode_rest,    // decoding, nothing in flight
  decode_flight,  // one decode step in flight
  chain_flight,   // several steps in flight
  count_,
};
const char* to_string(Phase phase);

// Why an exit cannot strike in a phase, in one line; null when it can.
const char* impossible(Exit exit, Phase phase, bool chained);

struct ExitCell {
  std::string loop;
  Exit exit = Exit::length;
  Phase phase = Phase::waiting;
  std::string verdict;         // "clean", "impossible", "FAILED"
  std::string note;            // the reason, or what was wrong
  std::int32_t in_flight = 0;  // steps that carried the request when the exit took effect
  bool ok() const { return verdict != "FAILED"; }
};

// All cells of all loops, in the order of the enumerations. Errors: of opening the model; invalid_argument (a loop).
Result<std::vector<ExitCell>> run_exit_matrix(const std::string& model, const std::vector<std::string>& loops, const ProgressFn& progress,
                                              const StopFn& stop);

}  // namespace plumb::conformance
