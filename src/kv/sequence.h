// Sequence: the pages one running sequence stands on, from its first row to its end.
//
// It owns one row of the slot table. Appends are bounds-checked: reserve() before a step gives every position of the step
// its page or fails, and nothing else writes the row. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/cell.h"
#include "base/status.h"
#include "kv/layout.h"
#include "kv/page_pool.h"
#include "kv/prefix_tree.h"
#include "kv/slot_table.h"

namespace plumb::kv {

// What sequences share. All outlive every sequence. `tree` may be null: nothing is shared between sequences then. `aux` is the
// pool of recurrent-state slots, null for models without recurrent layers. `context` may be null.
struct KvParts {
  const KvLayout& layout;
  std::span<PagePool* const> pools;
  SlotTable& slots;
  PrefixTree* tree = nullptr;
  PagePool* aux = nullptr;
  const CellContext* context = nullptr;
};

class Sequence {
 public:
  // `row`: acquired from the slot table; the sequence gives it back at its end.
  Sequence(const KvParts& parts, std::int32_t row);
  // Gives back every page, the row and the place in the tree.
  ~Sequence();
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  // Takes over the pages of a match. REQUIRES: nothing reserved yet. Where the match has a cold window, fresh pages stand in
  // for it, to be zeroed before they are read. A recurrent model gets its state slot; aux_source() says what it starts from.
  // Errors: capacity; the sequence can still be ended.
  Status begin(const PrefixMatch& match);

  // Makes room for positions below `end`, evicting from the tree where a pool is empty.
  // Errors: capacity naming the class, what was asked and what the pool has. The sequence stays as it was before, or with
  // some of the pages; it can still be ended.
  Status reserve(std::int32_t end);

  // Positions below `tokens.size()` have been computed by settled steps: complete pages enter the tree, pages that no window
  // can reach any more go.
  void commit(std::span<const std::int32_t> tokens);

  // The recurrent state after `length` positions, in a slot of its own, becomes the node's (the tree takes it over), or is let
  // go where the tree has one or no node ends there. REQUIRES: length == committed().
  void adopt_state(std::int32_t length, PageId slot);

  // That state belongs to a step whose result changes nothing: its slot goes back.
  void discard_state(PageId slot) { parts_.aux->release(slot); }

  // The node at or before `length` is a place where conversations branch. REQUIRES: length <= committed().
  void mark_snapshot(std::int32_t length);

  // The state this sequence computes in, or kNoPage.
  PageId aux_slot() const { return aux_.get(); }
  // The cached state its slot must be copied from before its first forward; kNoPage: the slot starts from zero.
  PageId aux_source() const { return aux_source_.get(); }
  // The copy has been made by a settled step: the source may go.
  void state_copied();

  std::int32_t row() const { return row_; }
  std::int32_t committed() const { return committed_.get(); }
  NodeId node() const { return node_.get(); }
  std::int32_t pages_held(std::size_t layer_class) const;

  // Logical pages [first, first + pages.size()) of the sequence in one class.
  struct Held {
    std::int32_t first = 0;
    std::vector<PageId> pages;
    std::int32_t end() const { return first + static_cast<std::int32_t>(pages.size()); }
  };
  // For checkers.
  const std::vector<Held>& peek_held() const { return held_.peek(); }
  NodeId peek_node() const { return node_.peek(); }
  std::int32_t peek_committed() const { return committed_.peek(); }
  std::int32_t peek_exact_from() const { return exact_from_.peek(); }
  PageId peek_aux() const { return aux_.peek(); }
  PageId peek_aux_source() const { return aux_source_.peek(); }

 private:
  Status adopt(const PrefixMatch& match);
  Status begin_state(const PrefixMatch& match);
  Result<PageId> take(std::size_t layer_class);
  void append(std::size_t layer_class, PageId page);
  std::int32_t table_index(std::size_t layer_class, std::int32_t logical) const;
  void insert_page(std::int32_t logical, std::span<const std::int32_t> tokens);
  void drop_before(std::size_t layer_class, std::int32_t first_live);

  const KvParts parts_;
  const std::int32_t row_;
  Cell<CellId::sequence_pages, std::vector<Held>> held_;  // by class
  Cell<CellId::sequence_node, NodeId> node_;
  Cell<CellId::sequence_committed, std::int32_t> committed_;
  // Window rows below this position were computed from a cold window and must not enter the tree.
  Cell<CellId::sequence_exact_from, std::int32_t> exact_from_;
  Cell<CellId::sequence_aux, PageId> aux_;
  Cell<CellId::sequence_aux_source, PageId> aux_source_;
};

}  // namespace plumb::kv
