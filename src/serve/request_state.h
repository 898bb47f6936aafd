// RequestState: one request from the mailbox to its terminal event.
//
// What decoding needs while the request is admitted is in its Track; everything here survives a retraction. Thread rule: the
// driving thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/cell.h"
#include "decode/host_sampling.h"
#include "decode/track.h"
#include "plumb/plumb.h"
#include "text/stop.h"
#include "text/stream_decoder.h"

namespace plumb {

enum class Stage : std::uint8_t {
  waiting,  // in the queue, first or again
  running,  // admitted
  closing,  // its terminal event is out; steps in flight still carry it
};

// Generated tokens on their way to text. `piece` is what the last token made printable.
struct TextState {
  text::StreamDecoder decoder;
  text::StopMatcher stop;
  std::string piece;
};

// What the client has been told, by count.
struct Emitted {
  std::int32_t tokens = 0;
  std::int32_t logits = 0;  // prompt positions whose logits have gone out
};

// Times in nanoseconds of the engine's clock; counters never fall.
struct Lifetime {
  std::uint64_t admitted_ns = 0;   // first admission
  std::uint64_t first_token_ns = 0;
  std::int32_t cached_tokens = 0;  // of the first admission
  std::int32_t rebuilt_tokens = 0;
  std::int32_t matched_tokens = 0;
  std::int32_t retractions = 0;
};

// Clause C6: what must have seen token N before N + 1 is drawn.
using Shaping = std::vector<std::unique_ptr<decode::HostSamplingState>>;

class RequestState {
 public:
  RequestState(const CellContext* context, RequestId number, std::uint64_t order, Request asked, std::vector<std::int32_t> prompt,
               std::uint64_t now_ns, TextState text_state, std::vector<std::int32_t> ends, Shaping how_drawn)
      : id(number), arrival(order), request(std::move(asked)), prompt_tokens(static_cast<std::int32_t>(prompt.size())),
        submitted_ns(now_ns), stop_ids(std::move(ends)), shaping(std::move(how_drawn)), tokens(context, std::move(prompt)), track(context), match(context),
        stage(context), emitted(context), text(context, std::move(text_state)), lifetime(context),
        suspect(context) {}

  const RequestId id;
  const std::uint64_t arrival;  // order of submission: among equals, who came first goes first, also after a retraction
  const Request request;
  const std::int32_t prompt_tokens;
  const std::uint64_t submitted_ns;
  const std::vector<std::int32_t> stop_ids;
  const Shaping shaping;  // all of them have a say in every draw; empty: drawn as the model says

  Cell<CellId::request_tokens, std::vector<std::int32_t>> tokens;  // while waiting; the track's while admitted
  Cell<CellId::request_track, std::unique_ptr<decode::Track>> track;
  Cell<CellId::request_match, kv::PrefixMatch> match;
  Cell<CellId::request_stage, Stage> stage;
  Cell<CellId::request_emitted, Emitted> emitted;
  Cell<CellId::request_text, TextState> text;
  Cell<CellId::request_usage, Lifetime> lifetime;
  Cell<CellId::request_suspect, std::int32_t> suspect;  // steps below this position carry it alone (recovery.cpp); 0: no suspicion

  // Draws depend on the tokens before: the host must have seen them all.
  bool follows_tokens() const {
    return std::any_of(shaping.begin(), shaping.end(), [](const auto& s) { return s->follows_tokens(); });
  }
  // The answer is whole, and its end tokens would be all that can follow.
  bool complete() const {
    return std::any_of(shaping.begin(), shaping.end(), [](const auto& s) { return s->complete(); });
  }
  std::uint64_t deadline_ns() const {
    return request.deadline_ms > 0 ? submitted_ns + static_cast<std::uint64_t>(request.deadline_ms * 1e6) : ~std::uint64_t{0};
  }
};

}  // namespace plumb
