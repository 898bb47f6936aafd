// Sequence: the pages one running sequence stands on, from its first row to its end.
//
// It owns one row of the page tables. Appends are bounds-checked: reserve() before a step gives every position of the step
// its page or fails, and nothing else writes the table. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "kv/layout.h"
#include "kv/page_pool.h"
#include "kv/prefix_tree.h"

namespace plumb::kv {

// One entry of the device's page table that must change before the next forward.
struct TableChange {
  std::int32_t layer_class = 0;
  std::int32_t index = 0;
  PageId page = kernels::kNoPage;
};

class Sequence {
 public:
  // `tree` may be null: nothing is shared then.
  Sequence(const KvLayout& layout, std::span<PagePool* const> pools, PrefixTree* tree);
  // Gives back every page and the place in the tree. Call end() first where the page tables live on.
  ~Sequence();
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  // Takes over the pages of a match. REQUIRES: nothing reserved yet. Where the match has a cold window, fresh pages stand in
  // for it; `zero` receives them (class, page) and they must be zeroed before they are read.
  // Errors: capacity.
  Status begin(const PrefixMatch& match, std::vector<TableChange>& changes, std::vector<TableChange>& zero);

  // Makes room for positions below `end`, evicting from the tree where the pool is empty.
  // Errors: capacity naming the class, what was asked and what the pool has. The sequence stays as it was before, or with
  // some of the pages; it can still be ended.
  Status reserve(std::int32_t end, std::vector<TableChange>& changes);

  // Positions below `tokens.size()` have been computed by settled steps: complete pages enter the tree, pages that no window
  // can reach any more go.
  void commit(std::span<const std::int32_t> tokens, std::vector<TableChange>& changes);

  // Gives back every page and records the table entries that name none any more. Nothing may follow.
  void end(std::vector<TableChange>& changes);

  // The last committed page is a place where conversations branch.
  void mark_snapshot();

  std::int32_t committed() const { return committed_; }
  NodeId node() const { return node_; }
  std::int32_t pages_held(std::size_t layer_class) const;

 private:
  // Logical pages [first, first + pages.size()) of the sequence in one class.
  struct Held {
    std::int32_t first = 0;
    std::vector<PageId> pages;
    std::int32_t end() const { return first + static_cast<std::int32_t>(pages.size()); }
  };
  Status adopt(const PrefixMatch& match, std::vector<TableChange>& changes, std::vector<TableChange>& zero);
  Result<PageId> take(std::size_t layer_class);
  void append(std::size_t layer_class, PageId page, std::vector<TableChange>& changes);
  std::int32_t table_index(std::size_t layer_class, std::int32_t logical) const;
  void insert_page(std::int32_t logical, std::span<const std::int32_t> tokens, std::vector<TableChange>& changes);
  void drop_before(std::size_t layer_class, std::int32_t first_live, std::vector<TableChange>& changes);

  const KvLayout& layout_;
  const std::vector<PagePool*> pools_;
  PrefixTree* tree_;
  NodeId node_ = kRoot;
  std::int32_t committed_ = 0;
  // Window rows below this position were computed from a cold window and must not enter the tree.
  std::int32_t windows_exact_from_ = 0;
  std::vector<Held> held_;  // by class
};

}  // namespace plumb::kv
