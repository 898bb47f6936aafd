// Choices: a list of texts of which an answer must be exactly one, as an automaton over tokens.
//
// A state is a place in the trie of the choices' bytes. A token leads on when its bytes do, whatever tokenisation that makes, and
// when from there some choice can still be completed: no state is a dead end.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "text/token_index.h"

namespace plumb::text {

// Thread rule: immutable after compile(); any number of threads may read.
class Choices {
 public:
  static constexpr std::size_t kMaxChoices = 1024;
  static constexpr std::size_t kMaxBytes = 1024;       // of one choice
  static constexpr std::size_t kMaxTotalBytes = 32768; // of all together: bounds the time and memory of compiling

  // `can_end`: the model has a token that ends a text; without one a choice that begins another could never be given.
  // Equal choices count once. Errors name "choices" or the choice's number, and the text: invalid_argument (none, an empty one, not
  // UTF-8), limit_exceeded, unsupported (no tokens of the vocabulary spell it; it begins another and nothing can end it).
  static Result<Choices> compile(const TokenIndex& index, const std::vector<std::string>& choices, bool can_end);

  using State = std::int32_t;
  static constexpr State kStart = 0;
  static constexpr State kNowhere = -1;

  struct Step {
    std::int32_t token;
    State to;
  };
  // The tokens that may follow, by id.
  std::span<const Step> steps(State state) const;
  // Where `token` leads, or kNowhere.
  State step(State state, std::int32_t token) const;
  // The bytes so far are a choice: the text may end here, and must where no token leads on.
  bool complete(State state) const { return nodes_[static_cast<std::size_t>(state)].choice >= 0; }

 private:
  struct Node {
    std::vector<std::pair<unsigned char, State>> children;  // by byte
    std::int32_t choice = -1;                               // the first of the list that ends here
    std::uint32_t first = 0;                                // its steps: [first, first + count)
    std::uint32_t count = 0;
  };
  Choices() : nodes_(1) {}
  void add(const std::string& text, std::int32_t number);
  void link(const TokenIndex& index);

  std::vector<Node> nodes_;  // children after their parents
  std::vector<Step> steps_;
};

}  // namespace plumb::text
