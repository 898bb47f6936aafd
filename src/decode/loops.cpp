// The list of decode loops.
#include "decode/loops.h"

#include <charconv>

namespace plumb::decode {
namespace {

// A full chain of k + 1 steps is waited for half at a time.
double chained_waits(std::int32_t k) { return 1.0 / static_cast<double>((k + 2) / 2); }
double one_wait(std::int32_t /*k*/) { return 1; }

constexpr LoopEntry kLoops[] = {
    {"standard", "the scheduler looks at every step before the next", false, &one_wait, &make_standard},
    {"chained", "up to k steps run ahead of the host", true, &chained_waits, &make_chained},
};

}  // namespace

std::span<const LoopEntry> loops() { return kLoops; }

Result<LoopChoice> parse_loop(std::string_view text) {
  const auto bad = [&](std::string why) { return fail(ErrorCode::invalid_argument, std::move(why), "engine options", "loop", std::string(text)); };
  const auto colon = text.find(':');
  std::string known;
  for (const LoopEntry& entry : kLoops) {
    known += (known.empty() ? "" : ", ") + std::string(entry.name) + (entry.chained ? "[:k]" : "");
    if (entry.name != text.substr(0, colon)) continue;
    if (colon == std::string_view::npos) return LoopChoice{&entry, entry.chained ? kDefaultChain : 0};
    if (!entry.chained) return bad("this loop has no chain, and takes no k");
    const std::string_view digits = text.substr(colon + 1);
    std::int32_t k = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), k);
    if (error != std::errc{} || end != digits.data() + digits.size() || k < 1 || k > kLongestChain) {
      return bad("k must be from 1 to " + std::to_string(kLongestChain));
    }
    return LoopChoice{&entry, k};
  }
  return bad("must be one of " + known);
}

std::string to_string(const LoopChoice& choice) {
  return choice.entry->chained ? std::string(choice.entry->name) + ":" + std::to_string(choice.k) : choice.entry->name;
}

}  // namespace plumb::decode
