// Track: what decoding knows of one admitted request, from admission to release.
//
// A request that is retracted and admitted again gets a new track: everything derived from positions starts anew with it (C21).
// The StepBook writes it at open and settle; the scheduler reads it to plan. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "base/cell.h"
#include "kv/sequence.h"

namespace plumb::decode {

struct Stamp {
  std::uint64_t step = 0;
  std::uint64_t time_ns = 0;
};

// Where the next forward finds the request's last token.
enum class Pending : std::uint8_t {
  host,   // in Track::tokens: settled
  relay,  // in the device's relay cell of the request's row: drawn by a step that has not settled
};

class Track {
 public:
  // `number` is unique in the engine. `text`: the prompt and, after a retraction, what had been answered.
  Track(const kv::KvParts& kv, std::int32_t row, std::uint64_t number, std::uint64_t owner_id, std::vector<std::int32_t> text)
      : incarnation(number), owner(owner_id), extend_end(static_cast<std::int32_t>(text.size())), sequence(kv, row), tokens(kv.context, std::move(text)), computed(kv.context), launched(kv.context),
        drawn(kv.context), in_flight(kv.context), chunk(kv.context), stamp(kv.context), pending(kv.context), closing(kv.context) {}

  const std::uint64_t incarnation;
  const std::uint64_t owner;      // the request's id
  const std::int32_t extend_end;  // positions to be computed before the first draw
  kv::Sequence sequence;
  Cell<CellId::track_tokens, std::vector<std::int32_t>> tokens;
  // Positions whose forward has settled, and positions handed to launched steps: equal when nothing is in flight (C2).
  Cell<CellId::track_computed, std::int32_t> computed;
  Cell<CellId::track_launched, std::int32_t> launched;
  Cell<CellId::track_drawn, std::int32_t> drawn;        // launched draws that have not settled
  Cell<CellId::track_in_flight, std::int32_t> in_flight;
  Cell<CellId::track_chunk, bool> chunk;
  Cell<CellId::track_stamp, Stamp> stamp;
  Cell<CellId::track_pending, Pending> pending;
  Cell<CellId::track_closing, bool> closing;

  std::int32_t length() const { return static_cast<std::int32_t>(tokens.get().size()); }
};

}  // namespace plumb::decode
