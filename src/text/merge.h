// The merge loop that every BPE vocabulary shares, and the pair table of the ranked kind.
//
// A piece of text starts as single symbols. Again and again the adjacent pair with the smallest (priority, position) is
// replaced by the symbol it makes, until no pair makes one. Symbols are a linked list in an array and the pairs wait in a
// heap, so n symbols cost O(n log n) look-ups and no recursion, whatever the text is. A pair in the heap is stale when one
// of its two symbols has grown since; growing changes the length it was recorded with, which is how it is recognised.
//
// Thread rule: a MergeScratch belongs to one call; a PairTable may be read by any number of threads.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/check.h"

namespace plumb::text {

// Work done by an encode call, for tests that hold it to linear growth.
struct EncodeStats {
  std::uint64_t pieces = 0;       // pieces of text that went into a merge loop or were found whole
  std::uint64_t pair_lookups = 0; // pairs tried
  std::uint64_t merges = 0;       // pairs merged
};

struct Symbol {
  std::int32_t id = 0;       // token id, or below zero for text that has no token
  std::uint32_t start = 0;   // byte offset in the piece
  std::uint32_t length = 0;  // bytes; 0 once merged into its left neighbour
  std::int32_t previous = -1;
  std::int32_t next = -1;
};

// What a pair would become. Lower priority values merge first.
struct Candidate {
  std::uint32_t priority = 0;
  std::int32_t id = -1;  // below zero: the pair makes no symbol
};

struct MergeScratch {
  struct Pending {
    std::uint64_t order;   // priority in the high half, left symbol's index in the low half
    std::uint32_t length;  // bytes of both symbols when the pair was recorded
    std::int32_t id;
  };
  std::vector<Symbol> symbols;
  std::vector<Pending> heap;
};

// Links scratch.symbols in order and merges them in place: afterwards the symbols that remain are reached from index 0 by
// `next`. `lookup(left, right)` returns a Candidate. REQUIRES: fewer than 2^31 symbols.
template <class Lookup>
void merge_symbols(MergeScratch& scratch, const Lookup& lookup, EncodeStats& stats) {
  std::vector<Symbol>& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  const auto later = [](const MergeScratch::Pending& a, const MergeScratch::Pending& b) { return a.order > b.order; };
  const auto consider = [&](std::int32_t left) {
    const Symbol& a = symbols[static_cast<std::size_t>(left)];
    if (a.next < 0) return false;
    const Symbol& b = symbols[static_cast<std::size_t>(a.next)];
    ++stats.pair_lookups;
    const Candidate candidate = lookup(a, b);
    if (candidate.id < 0) return false;
    heap.push_back({(std::uint64_t{candidate.priority} << 32) | static_cast<std::uint32_t>(left), a.length + b.length,
                    candidate.id});
    return true;
  };

  heap.clear();
  const auto count = static_cast<std::int32_t>(symbols.size());
  for (std::int32_t i = 0; i < count; ++i) {
    symbols[static_cast<std::size_t>(i)].previous = i - 1;
    symbols[static_cast<std::size_t>(i)].next = i + 1 < count ? i + 1 : -1;
  }
  for (std::int32_t i = 0; i + 1 < count; ++i) consider(i);
  std::make_heap(heap.begin(), heap.end(), later);

  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const MergeScratch::Pending top = heap.back();
    heap.pop_back();
    const auto left = static_cast<std::int32_t>(top.order & 0xFFFFFFFFU);
    Symbol& a = symbols[static_cast<std::size_t>(left)];
    if (a.length == 0 || a.next < 0) continue;
    Symbol& b = symbols[static_cast<std::size_t>(a.next)];
    if (a.length + b.length != top.length) continue;
    ++stats.merges;
    a.id = top.id;
    a.length = top.length;
    a.next = b.next;
    b.length = 0;
    if (a.next >= 0) symbols[static_cast<std::size_t>(a.next)].previous = left;
    if (consider(left)) std::push_heap(heap.begin(), heap.end(), later);
    if (a.previous >= 0 && consider(a.previous)) std::push_heap(heap.begin(), heap.end(), later);
  }
}

// (left id, right id) -> (rank, merged id), open addressing in one array.
class PairTable {
 public:
  PairTable() = default;
  explicit PairTable(std::size_t expected) : slots_(std::bit_ceil(std::max<std::size_t>(expected * 2, 16))) {}

  // Keeps what is there when the pair is already known. REQUIRES: ids >= 0, at most `expected` pairs.
  void insert(std::int32_t left, std::int32_t right, std::uint32_t rank, std::int32_t merged) {
    const std::uint64_t key = key_of(left, right);
    std::size_t at = place(key);
    while (slots_[at].key != kEmpty && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
    if (slots_[at].key == kEmpty) {
      PLUMB_CHECK(++used_ * 2 <= slots_.size());
      slots_[at] = {key, {rank, merged}};
    }
  }

  // A candidate with id below zero when the pair is unknown or one of the ids is.
  Candidate find(std::int32_t left, std::int32_t right) const {
    if (left < 0 || right < 0 || slots_.empty()) return {};
    const std::uint64_t key = key_of(left, right);
    for (std::size_t at = place(key); slots_[at].key != kEmpty; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at].key == key) return slots_[at].candidate;
    }
    return {};
  }

  std::size_t size() const { return used_; }

 private:
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};  // no pair of non-negative ids has this key
  struct Slot {
    std::uint64_t key = kEmpty;
    Candidate candidate;
  };

  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32) | static_cast<std::uint32_t>(right);
  }
  // Multiplicative hashing; the high bits of the product depend on every bit of the key.
  std::size_t place(std::uint64_t key) const {
    key ^= key >> 29;
    return (key * 0x9E3779B97F4A7C15ULL) >> (64 - std::countr_zero(slots_.size()));
  }

  std::vector<Slot> slots_;
  std::size_t used_ = 0;
};

}  // namespace plumb::text
