// One measurement of `plumb bench`: a prompt of random tokens, a stretch of it or of what follows timed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "plumb/plumb.h"

namespace plumb::app {

// What is timed, after `depth` positions that are not.
struct BenchCase {
  enum class Kind : std::uint8_t { prefill, decode };
  Kind kind = Kind::prefill;
  std::int32_t tokens = 0;
  std::int32_t depth = 0;
  std::int32_t streams = 1;  // decode: requests computed together, each of that depth
  bool same_text = false;    // all streams have the text of the first: their rows then choose the same experts

  std::string name() const;  // "pp512", "tg64@d2048", "tg64x8": eight streams, "tg64x8same": of one text
  // That the context must hold, when a step computes `chunk_rows` rows of prompts at most.
  std::int32_t positions(std::int32_t chunk_rows) const;
  // Tokens each request draws: with several streams also those that the first draws while the last still reads its prompt.
  std::int32_t drawn(std::int32_t chunk_rows) const;
};

struct BenchSample {
  double tokens_per_second = 0;
  double ended = 0;  // seconds since 1970 when the last token timed was there
  std::string fingerprint;  // of the tokens drawn and of the bits of the logits they were drawn from
};

// Tokens of a prompt: a fixed function of position, vocabulary and stream.
std::vector<std::int32_t> bench_tokens(std::int32_t count, std::int32_t vocab, std::int32_t stream = 0);

// Runs the case once. Prefill is timed from the step that ends at `depth` to the first token drawn: the head of one row is in
// it. Decode is timed from one token to the `tokens`-th after it; with several streams while all of them are drawing, and the rate
// is that of all tokens drawn in that time. `go_on` false ends the run.
// Errors: those of generate(); internal when no step of the prompt ends at `depth`; cancelled.
Result<BenchSample> run_bench_case(Engine& engine, const BenchCase& bench, std::int32_t chunk_rows, const std::function<bool()>& go_on);

}  // namespace plumb::app
