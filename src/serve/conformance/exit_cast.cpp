#include "serve/conformance/exit_cast.h"

#include <algorithm>
#include <cmath>

#include "base/counter_rng.h"

namespace plumb::conformance {
namespace {

constexpr std::int32_t kShared = 32;      // positions that the primer leaves in the tree
constexpr std::int32_t kPrompt = 77;      // several chunks after them
constexpr std::int32_t kAnswer = 15;
constexpr std::int32_t kContext = 96;
constexpr std::size_t kLateStop = 6;      // the last place for a stop that a chain must find with steps in flight behind it
constexpr std::int32_t kFullEdits = 16;   // requests of 1,024 logit biases: all that one step may have
constexpr std::uint64_t kSeeds = 60;      // texts to look through for a stop

std::vector<std::int32_t> text(std::uint64_t salt, std::int32_t n, std::int32_t vocab) {
  const Philox philox{salt};
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < n; ++i) tokens.push_back(static_cast<std::int32_t>(philox.block(static_cast<std::uint64_t>(i))[0] % static_cast<std::uint32_t>(vocab)));
  return tokens;
}

Request ask(std::uint64_t salt, std::int32_t n, std::int32_t max_tokens, std::int32_t vocab) {
  Request r;
  r.prompt_ids = text(salt, n, vocab);
  r.max_tokens = max_tokens;
  r.ignore_eos = true;
  return r;
}

bool ends(Exit exit) { return exit == Exit::stop_token || exit == Exit::stop_string || exit == Exit::eos; }

// The bias under which one of the model's end tokens is drawn about one time in four, at the first draw.
LogitBias bias_to_end(const Request& request, Reference& reference) {
  const std::int32_t eos = reference.engine().info().eos_ids.front();
  Request first = request;
  first.max_tokens = 1;
  first.token_logits = true;
  const std::vector<float> logits = reference.first_logits(first);
  const float top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float l : logits) sum += std::exp(static_cast<double>(l - top));
  return {eos, top + static_cast<float>(std::log(sum)) - logits[static_cast<std::size_t>(eos)] - 1.1F};
}

// Makes `request` stop at one of the answer's tokens [first, last]; false when this text has no such place.
bool stop_between(Exit exit, std::size_t first, std::size_t last, Request& request, Reference& reference) {
  const std::vector<std::int32_t> whole = reference.answer(request).tokens;
  for (std::size_t at = first; at <= std::min(last, whole.size() - 1); ++at) {
    Request r = request;
    const std::int32_t token = whole[at];
    if (exit == Exit::eos) {
      r.ignore_eos = false;
    } else if (exit == Exit::stop_token) {
      r.stop_ids = {token};
    } else {
      const std::string spelled = reference.engine().tokenizer().decode(std::span(&token, 1));
      if (spelled.empty() || spelled.find('\xEF') != std::string::npos) continue;
      r.stop = {spelled};
    }
    const std::size_t length = reference.answer(r).tokens.size();
    if (length < first + 1 || length > last + 1 || length == whole.size()) continue;
    request = r;
    return true;
  }
  return false;
}

Result<Request> subject_for(Exit exit, Phase phase, Reference& reference) {
  const std::int32_t vocab = reference.engine().info().vocab;
  Request r = ask(2, kPrompt, kAnswer, vocab);
  r.sampling = {.temperature = 1, .seed = 1};
  if (exit == Exit::length && phase == Phase::chunk_flight) r.max_tokens = 1;
  if (exit == Exit::deadline) r.deadline_ms = 1000;
  if (exit == Exit::context) {
    r.prompt_ids = text(2, phase == Phase::chunk_flight ? kContext : kContext - 6, vocab);
    r.max_tokens = kContext;
  }
  if (!ends(exit)) return r;
  if (exit == Exit::eos) r.logit_bias = {bias_to_end(r, reference)};
  const bool at_once = phase == Phase::chunk_flight;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    r.sampling.seed = seed;
    if (!stop_between(exit, at_once ? 0 : 1, at_once ? 0 : kLateStop, r, reference)) continue;
    // Nothing is launched beyond max_tokens: so the stop is found with nothing in flight behind it.
    if (phase == Phase::decode_flight) r.max_tokens = static_cast<std::int32_t>(reference.answer(r).tokens.size());
    return r;
  }
  return fail(ErrorCode::not_found, "no text of this model stops where the cell wants it", "exit matrix", to_string(exit), to_string(phase));
}

}  // namespace

WorldOptions exit_world(const std::string& model, const std::string& loop) {
  WorldOptions o;
  o.model = model;
  o.loop = loop;
  o.max_requests = 2;
  o.context = kContext;
  o.pool_pages = 24;
  return o;
}

Result<ExitCast> cast_for(Exit exit, Phase phase, const WorldOptions& /*options*/, Reference& reference) {
  const std::int32_t vocab = reference.engine().info().vocab;
  ExitCast cast;
  PLUMB_ASSIGN(cast.subject, subject_for(exit, phase, reference));
  cast.primer = ask(2, kShared + 3, 1, vocab);
  cast.later = {ask(5, 3, 4, vocab)};
  const bool decoding = phase == Phase::decode_rest || phase == Phase::decode_flight;
  if (!decoding || natural_end(exit)) cast.company = {ask(3, 5, 60, vocab)};
  if (phase == Phase::waiting) cast.company.push_back(ask(4, 7, 60, vocab));  // there is no room for a third
  if (exit == Exit::memory) cast.company.clear();
  cast.canary = cast.subject;
  cast.canary.prompt_ids.resize(std::min<std::size_t>(cast.canary.prompt_ids.size(), kPrompt));
  cast.canary.prompt_ids.push_back(1);
  cast.canary.max_tokens = 3;
  cast.canary.deadline_ms = 0;
  cast.canary.stop.clear();
  cast.canary.stop_ids.clear();
  cast.canary.logit_bias.clear();
  cast.canary.ignore_eos = true;
  return cast;
}

bool cast_for_pressure(Exit exit, Phase phase, std::size_t attempt, WorldOptions& options, ExitCast& cast, Reference& reference) {
  const std::int32_t vocab = reference.engine().info().vocab;
  cast = {};
  cast.canary = ask(2, 20, 3, vocab);
  if (exit == Exit::memory) {  // 40 + 50 positions in 64
    options.pool_pages = 4;
    cast.subject = ask(2, 40, 50, vocab);
    cast.later = {ask(5, 3, 4, vocab)};
    return attempt == 0;
  }
  if (phase == Phase::decode_rest) {  // both grow until the younger must go
    options.pool_pages = 6;
    cast.company = {ask(3, 20, 60, vocab)};
    cast.subject = ask(2, 20, 60, vocab);
    return attempt == 0;
  }
  if (phase == Phase::between_chunks) {
    // Admission counts the older request's next page, not the one after; that one is missing for the subject's last chunk.
    options.pool_pages = 6 + static_cast<std::int32_t>(attempt / 16);
    cast.company = {ask(3, 16 - static_cast<std::int32_t>(attempt % 16), 40, vocab)};
    cast.subject = ask(2, kPrompt, 4, vocab);
    return attempt < 32;
  }
  // Matched for long: the older requests use up all the changes of logits that one step may have, and the subject's only position
  // wants one more. They need their second pages meanwhile, which admission did not count.
  constexpr std::size_t kHeadStarts = 8;
  options.max_requests = kFullEdits + 1;
  options.pool_pages = kFullEdits + 3 + static_cast<std::int32_t>(attempt / kHeadStarts);
  cast.primer = ask(2, kShared + 1, 1, vocab);
  for (std::int32_t i = 0; i < kFullEdits; ++i) {
    cast.company.push_back(ask(100 + static_cast<std::uint64_t>(i), 4, 24, vocab));
    for (std::int32_t n = 0; n < 1024; ++n) cast.company.back().logit_bias.push_back({(n * 7 + i) % vocab, 0.01F});
  }
  cast.head_start = 2 + static_cast<std::int32_t>(attempt % kHeadStarts);
  cast.subject = ask(2, kShared + 1, 4, vocab);
  cast.subject.logit_bias = {{1, 0.01F}};
  return attempt < 4 * kHeadStarts;
}

}  // namespace plumb::conformance
