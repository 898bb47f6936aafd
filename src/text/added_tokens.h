// Finding added tokens (control tokens and the like) in text before it is split.
//
// A byte trie. At each position the longest token that is allowed there wins, as in tokenizer.json's leftmost-longest rule.
// The cost is the text's length times, at worst, the longest token's, which the loader bounds.
//
// Thread rule: build on one thread, then any number may read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace plumb::text {

class AddedTokens {
 public:
  struct Match {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::int32_t id = -1;
  };

  // `special` tokens are found only by a search with specials. REQUIRES: content not empty.
  void add(std::string_view content, std::int32_t id, bool special);

  // The first token at or after `from`, longest at its place; id -1 (begin and end at the text's end) when there is none.
  Match find(std::string_view text, std::size_t from, bool specials) const;

  bool empty() const { return nodes_.size() <= 1; }

 private:
  struct Node {
    std::int32_t child = -1;    // first child
    std::int32_t sibling = -1;  // next child of the same parent
    std::int32_t id = -1;
    std::uint8_t byte = 0;
    bool special = false;
  };
  std::int32_t child_of(std::int32_t node, std::uint8_t byte) const;

  std::vector<Node> nodes_{Node{}};
  std::array<std::int32_t, 256> first_ = filled();  // the root's children: most positions end here

  static constexpr std::array<std::int32_t, 256> filled() {
    std::array<std::int32_t, 256> all{};
    all.fill(-1);
    return all;
  }
};

}  // namespace plumb::text
