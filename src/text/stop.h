// Stop strings in generated text, found while it streams.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace plumb::text {

// Text goes in by pieces, cut anywhere; what comes out is the text before the first stop string. As much as possible comes out
// at once: held back is only the longest end of the text that some stop string begins with. When two stop strings end at one
// place, the one that began earlier counts; of two that overlap otherwise, the one that is complete first.
//
// One automaton over all strings (Aho-Corasick): constant time per byte, whatever the strings are.
//
// Thread rule: one thread.
class StopMatcher {
 public:
  static constexpr std::size_t kMaxStrings = 64;
  static constexpr std::size_t kMaxBytes = 4096;  // of one string

  // No strings: nothing is ever held back. Errors: invalid_argument (an empty string), limit_exceeded.
  static Result<StopMatcher> create(std::vector<std::string> stops);

  // The text that can be shown now. After a match: nothing more, ever.
  std::string feed(std::string_view piece);

  // The text has ended: what was held back, unless a stop string was found.
  std::string flush();

  bool stopped() const { return found_.has_value(); }
  // The stop string that was found. REQUIRES: stopped().
  const std::string& found() const { return stops_[*found_]; }
  // Bytes held back.
  std::size_t held() const { return held_.size(); }

 private:
  struct Node {
    std::vector<std::pair<std::uint8_t, std::int32_t>> next;  // children, in byte order
    std::int32_t fail = 0;      // the longest end of this node's text that is a node too
    std::int32_t match = -1;    // the longest stop string that ends here
    std::uint32_t depth = 0;    // length of this node's text
  };

  StopMatcher() : nodes_(1) {}
  std::int32_t child(std::int32_t node, std::uint8_t byte) const;
  void build();

  std::vector<std::string> stops_;
  std::vector<Node> nodes_;
  std::int32_t at_ = 0;
  std::string held_;
  std::optional<std::size_t> found_;
};

}  // namespace plumb::text
