// Seeded workloads: conversations that go on, branch and repeat; stops, penalties, limits; aborts, pauses, flushes and faults at
// any moment.
#include <algorithm>

#include "base/counter_rng.h"
#include "base/printable.h"
#include "serve/conformance/world.h"

namespace plumb::conformance {
namespace {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : philox_{seed} {}
  std::int32_t below(std::int32_t n) { return static_cast<std::int32_t>(philox_.block(next_++)[0] % static_cast<std::uint32_t>(n)); }
  bool one_in(std::int32_t n) { return below(n) == 0; }

 private:
  Philox philox_;
  std::uint64_t next_ = 0;
};

std::vector<std::int32_t> fresh(Dice& dice, std::int32_t n, std::int32_t vocab) {
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < n; ++i) tokens.push_back(dice.below(vocab));
  return tokens;
}

// Texts of which an answer must be one: the spellings of a few random tokens each. Some begin others.
std::vector<std::string> choices(Dice& dice, const text::Tokenizer& tokenizer) {
  const auto ends = tokenizer.eos_ids();
  std::vector<std::string> texts;
  for (const std::int32_t n = 2 + dice.below(4); static_cast<std::int32_t>(texts.size()) < n;) {
    std::string text = !texts.empty() && dice.one_in(3) ? texts.back() : std::string();
    for (std::int32_t t = 1 + dice.below(4); t > 0;) {
      const std::int32_t token = dice.below(tokenizer.vocab_size());
      if (tokenizer.is_special(token) || std::find(ends.begin(), ends.end(), token) != ends.end() || !is_utf8(tokenizer.token_bytes(token))) continue;
      text += tokenizer.token_bytes(token);
      --t;
    }
    if (!text.empty()) texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace

Workload make_workload(std::uint64_t seed, const WorldOptions& options, Reference& reference) {
  Dice dice(seed);
  Dice more(~seed);  // of what came to be asked later: the dice above fall for every seed as they always did
  Workload w{seed, {}};
  const std::int32_t vocab = reference.engine().info().vocab;
  const std::int32_t asks = 4 + dice.below(6);
  std::vector<std::vector<std::int32_t>> texts;
  std::int32_t turn = 0;
  for (std::int32_t n = 0; n < asks; ++n) {
    Request r;
    const std::int32_t kind = texts.empty() ? 0 : dice.below(5);
    if (kind == 0) {
      r.prompt_ids = fresh(dice, dice.one_in(6) ? 150 + dice.below(options.context / 3) : 1 + dice.below(70), vocab);
    } else {
      r.prompt_ids = texts[static_cast<std::size_t>(dice.below(static_cast<std::int32_t>(texts.size())))];
      if (kind == 1) r.prompt_ids.resize(static_cast<std::size_t>(1 + dice.below(static_cast<std::int32_t>(r.prompt_ids.size()))));  // branch
      if (kind != 2) {  // 2: the same again
        const auto added = fresh(dice, 1 + dice.below(20), vocab);
        r.prompt_ids.insert(r.prompt_ids.end(), added.begin(), added.end());
      }
    }
    const auto most = static_cast<std::size_t>(options.context - 30);
    if (r.prompt_ids.size() > most) r.prompt_ids.resize(most);
    r.max_tokens = dice.one_in(8) ? 0 : dice.one_in(4) ? 40 + dice.below(80) : 1 + dice.below(24);
    if (dice.one_in(10)) {  // outgrows a small pool all alone
      r.prompt_ids = fresh(dice, std::min(options.pool_pages * 16 - 8 - dice.below(30), options.context - 100), vocab);
      r.max_tokens = 60;
    }
    r.ignore_eos = dice.one_in(2);
    r.priority = dice.one_in(5) ? dice.below(3) : 0;
    if (dice.one_in(3)) r.sampling = {.temperature = 0.9F, .top_p = 0.95F, .seed = static_cast<std::uint64_t>(dice.below(1000))};
    if (dice.one_in(4)) {
      r.sampling.repetition_penalty = 1.2F;
      r.sampling.frequency_penalty = 0.25F;
      r.sampling.presence_penalty = dice.one_in(2) ? 0.5F : 0.0F;
    }
    if (dice.one_in(8)) r.logit_bias = {{dice.below(vocab), 4}, {dice.below(vocab), -50}};
    const Reference::Answer first = reference.answer(r);
    if (!first.tokens.empty() && dice.one_in(3)) {  // a stop that will come, somewhere
      const std::int32_t at = dice.below(static_cast<std::int32_t>(first.tokens.size()));
      const std::int32_t token = first.tokens[static_cast<std::size_t>(at)];
      const std::string text = reference.engine().tokenizer().decode(std::span(&token, 1));
      if (dice.one_in(3) && !text.empty() && text.find('\xEF') == std::string::npos) {
        r.stop = {text};
      } else {
        r.stop_ids = {token};
      }
    }
    if (r.max_tokens > 0 && r.max_tokens <= 24 && more.one_in(4)) {  // long answers stay long: they make the pools run dry
      r.choices = choices(more, reference.engine().tokenizer());
      r.stop.clear();
      r.stop_ids.clear();
    }
    if (dice.one_in(10) && r.prompt_ids.size() > 3) r.logit_positions = {static_cast<std::int32_t>(r.prompt_ids.size()) / 2, static_cast<std::int32_t>(r.prompt_ids.size()) - 1};
    if (dice.one_in(12)) r.branch_points = {static_cast<std::int32_t>(r.prompt_ids.size()) / 2};
    if (dice.one_in(12)) r.deadline_ms = 2 + dice.below(60);
    const auto& truth = reference.answer(r);
    texts.push_back(r.prompt_ids);
    texts.back().insert(texts.back().end(), truth.tokens.begin(), truth.tokens.end());
    turn += dice.one_in(3) ? 0 : dice.below(14);
    w.happenings.push_back({.turn = turn, .deed = Deed::ask, .request = std::move(r)});
    if (dice.one_in(5)) w.happenings.push_back({.turn = turn + dice.below(25), .deed = Deed::abort, .of = n});
    if (dice.one_in(16)) {
      const std::int32_t at = turn + dice.below(10);
      w.happenings.push_back({.turn = at, .deed = Deed::pause});
      w.happenings.push_back({.turn = at + 1 + dice.below(5), .deed = Deed::resume});
    }
    if (dice.one_in(14)) w.happenings.push_back({.turn = turn + dice.below(20), .deed = Deed::flush});
    if (dice.one_in(3)) w.happenings.push_back({.turn = turn + dice.below(20), .deed = Deed::late, .nth = static_cast<std::uint64_t>(1 + dice.below(4))});
    if (options.faults && dice.one_in(20)) w.happenings.push_back({.turn = turn + dice.below(20), .deed = Deed::fault, .nth = static_cast<std::uint64_t>(1 + dice.below(400))});
    if (options.faults && more.one_in(20)) {
      w.happenings.push_back({.turn = turn + more.below(20), .deed = Deed::fault, .nth = static_cast<std::uint64_t>(1 + more.below(400)), .row = more.below(3)});
    }
    if (options.faults && dice.one_in(40)) w.happenings.push_back({.turn = turn + dice.below(20), .deed = Deed::no_memory});
  }
  std::stable_sort(w.happenings.begin(), w.happenings.end(), [](const Happening& a, const Happening& b) { return a.turn < b.turn; });
  return w;
}

}  // namespace plumb::conformance
