// HostSamplingState: what the host must know of a request's tokens before it can say how the next one is drawn (clause C6).
//
// Token N is accepted when the step that drew it is delivered; the draw of N + 1 is shaped after that and before its sample half
// is submitted. A chained loop launches the forward of N + 1 meanwhile: only the sample half waits (StepPlan::rules_later).
// Penalties and constraints are two kinds; a further one (a grammar) is a class with its own cell and a line in the scheduler's
// intake. State that tokens change lives in cells.
//
// Thread rule: the driving thread.
#pragma once

#include <cstdint>

#include "decode/draw_rules.h"

namespace plumb::decode {

class HostSamplingState {
 public:
  virtual ~HostSamplingState() = default;
  // Whether shape() depends on what was accepted. Where it does not, steps may be drawn ahead of what the host has seen.
  virtual bool follows_tokens() const = 0;
  // The next token of the answer. Called while delivering, once for each token, in order.
  virtual void accept(std::int32_t token) = 0;
  // Adds what it has to say about the next draw to the last row of `rules`.
  virtual void shape(DrawRules& rules) const = 0;
  // How many changes of logits shape() adds at most, after up to `unseen` further tokens.
  virtual std::int64_t most_edits(std::int32_t unseen) const = 0;
  // The answer is whole and nothing may follow it: the request ends, also before the model would end it.
  virtual bool complete() const { return false; }
};

}  // namespace plumb::decode
