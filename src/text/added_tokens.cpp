#include "text/added_tokens.h"

#include "base/check.h"

namespace plumb::text {

std::int32_t AddedTokens::child_of(std::int32_t node, std::uint8_t byte) const {
  if (node == 0) return first_[byte];
  std::int32_t child = nodes_[static_cast<std::size_t>(node)].child;
  while (child >= 0 && nodes_[static_cast<std::size_t>(child)].byte != byte) {
    child = nodes_[static_cast<std::size_t>(child)].sibling;
  }
  return child;
}

void AddedTokens::add(std::string_view content, std::int32_t id, bool special) {
  PLUMB_CHECK(!content.empty());
  std::int32_t node = 0;
  for (const char c : content) {
    const auto byte = static_cast<std::uint8_t>(c);
    std::int32_t child = child_of(node, byte);
    if (child < 0) {
      child = static_cast<std::int32_t>(nodes_.size());
      Node& parent = nodes_[static_cast<std::size_t>(node)];
      Node fresh;
      fresh.byte = byte;
      fresh.sibling = parent.child;
      parent.child = child;
      if (node == 0) first_[byte] = child;
      nodes_.push_back(fresh);
    }
    node = child;
  }
  nodes_[static_cast<std::size_t>(node)].id = id;
  nodes_[static_cast<std::size_t>(node)].special = special;
}

AddedTokens::Match AddedTokens::find(std::string_view text, std::size_t from, bool specials) const {
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    std::int32_t node = first_[static_cast<std::uint8_t>(text[begin])];
    Match best;
    for (std::size_t at = begin + 1; node >= 0; ++at) {
      const Node& here = nodes_[static_cast<std::size_t>(node)];
      if (here.id >= 0 && (specials || !here.special)) best = {begin, at, here.id};
      if (at >= text.size()) break;
      node = child_of(node, static_cast<std::uint8_t>(text[at]));
    }
    if (best.id >= 0) return best;
  }
  return {text.size(), text.size(), -1};
}

}  // namespace plumb::text
