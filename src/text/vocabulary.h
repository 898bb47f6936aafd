// Token ids and their bytes, both ways, in flat memory.
//
// All token bytes lie in one string; a token is an offset pair, and the reverse direction is an open-addressing table of
// (hash, id). A vocabulary of 200,000 tokens is three allocations, which is what keeps loading it short.
//
// Thread rule: build on one thread, then any number may read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plumb::text {

class Vocabulary {
 public:
  static constexpr std::int32_t kNone = -1;

  Vocabulary() = default;
  // `size` ids, 0 to size - 1, all without bytes. REQUIRES: size fits in int32.
  explicit Vocabulary(std::size_t size) : spans_(size) {}

  // Gives `id` its bytes; a second call replaces them. REQUIRES: 0 <= id < size(), total bytes below 4 GiB.
  void set(std::int32_t id, std::string_view bytes);

  // Builds the reverse table over the ids for which `lookup[id]` is true. Of two ids with equal bytes the lower one wins.
  // REQUIRES: lookup.size() == size().
  void index(const std::vector<bool>& lookup);

  std::size_t size() const { return spans_.size(); }
  bool has(std::int32_t id) const { return in_range(id) && spans_[static_cast<std::size_t>(id)].set; }

  // Empty for an id that is out of range or has no bytes. The view lives as long as the vocabulary.
  std::string_view bytes(std::int32_t id) const;

  // The id of `bytes` in the reverse table, or kNone.
  std::int32_t find(std::string_view bytes) const;

  // Length in bytes of the longest token in the reverse table: nothing longer needs a look-up.
  std::size_t longest() const { return longest_; }

 private:
  struct Span {
    std::uint32_t offset = 0;
    std::uint32_t length : 31 = 0;
    std::uint32_t set : 1 = 0;
  };
  struct Slot {
    std::uint32_t hash = 0;
    std::int32_t id = kNone;
  };

  bool in_range(std::int32_t id) const { return id >= 0 && static_cast<std::size_t>(id) < spans_.size(); }

  std::string blob_;
  std::vector<Span> spans_;
  std::vector<Slot> slots_;  // a power of two, at most half full
  std::size_t longest_ = 0;
};

}  // namespace plumb::text
