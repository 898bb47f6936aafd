#include "text/token_index.h"

#include <algorithm>

namespace plumb::text {

TokenIndex::TokenIndex(Tokenizer tokenizer) : tokenizer_(std::move(tokenizer)) {
  const auto ends = tokenizer_.eos_ids();
  for (std::int32_t id = 0; id < tokenizer_.vocab_size(); ++id) {
    const bool text = tokenizer_.has_token(id) && !tokenizer_.is_special(id) && std::find(ends.begin(), ends.end(), id) == ends.end();
    if (text && !tokenizer_.token_bytes(id).empty()) ids_.push_back(id);
  }
  std::sort(ids_.begin(), ids_.end(), [&](std::int32_t a, std::int32_t b) {
    const int order = tokenizer_.token_bytes(a).compare(tokenizer_.token_bytes(b));
    return order != 0 ? order < 0 : a < b;
  });
}

TokenIndex::Range TokenIndex::narrow(Range range, unsigned char byte) const {
  const auto at = static_cast<std::size_t>(range.depth);
  // Tokens that end here come first, and have no next byte.
  const auto next = [&](std::int32_t id) {
    const std::string_view bytes = tokenizer_.token_bytes(id);
    return bytes.size() > at ? static_cast<int>(static_cast<unsigned char>(bytes[at])) : -1;
  };
  const auto first = ids_.begin() + range.begin;
  const auto last = ids_.begin() + range.end;
  const auto lo = std::lower_bound(first, last, static_cast<int>(byte), [&](std::int32_t id, int b) { return next(id) < b; });
  const auto hi = std::upper_bound(lo, last, static_cast<int>(byte), [&](int b, std::int32_t id) { return b < next(id); });
  return {static_cast<std::int32_t>(lo - ids_.begin()), static_cast<std::int32_t>(hi - ids_.begin()), range.depth + 1};
}

std::span<const std::int32_t> TokenIndex::spelled(Range range) const {
  std::int32_t end = range.begin;
  while (end < range.end && tokenizer_.token_bytes(ids_[static_cast<std::size_t>(end)]).size() == static_cast<std::size_t>(range.depth)) ++end;
  return std::span(ids_).subspan(static_cast<std::size_t>(range.begin), static_cast<std::size_t>(end - range.begin));
}

}  // namespace plumb::text
