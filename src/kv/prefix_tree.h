// PrefixTree: what the KV pools remember of finished work.
//
// A node is one page of tokens (kPageRows) below its parent, and holds at most one page per layer class: the K and V of those
// positions given all tokens on the path from the root. Full-attention pages are held along the whole path. Window pages are
// held as long as memory allows: a sequence can continue at a node when the window pages of the last window - 1 positions
// before it are still held by the nodes above (a window snapshot), or else after recomputing them.
//
// A match of length L (a multiple of kPageRows) is used in one of three ways, cheapest first:
//   warm     every class holds what it needs at L: nothing is recomputed;
//   resumed  the windows are held at an earlier W: positions [W, L) are recomputed for the window classes only;
//   rebuilt  no window is near: positions [L - D, L) are recomputed for the window classes only, from an empty window, with
//            D = the sum of window - 1 over all sliding layers, and a page. Each sliding layer passes the missing past window - 1
//            positions further, so the window that L needs has the same bits as in a cold run.
// Rows recomputed for window classes attend to the shared full-attention pages and must not write them.
//
// Models with recurrent layers: a node may hold the state after its last token. A state cannot be rebuilt from its tail, so a
// sequence can continue only where a state and the windows are both held: the shortest hit across the kinds decides (C23).
//
// Eviction: window pages of nodes that are no snapshot, then of snapshots, then whole nodes, leaves first; each by least
// recent use, and never what a sequence still uses. Thread rule: one thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/cell.h"
#include "base/status.h"
#include "kv/layout.h"
#include "kv/page_pool.h"

namespace plumb::kv {

using NodeId = std::int32_t;
inline constexpr NodeId kRoot = 0;

struct PrefixMatch {
  std::vector<NodeId> path;         // nodes of pages 0 .. length / kPageRows - 1
  std::int32_t length = 0;          // L
  std::int32_t recompute_from = 0;  // first position whose window rows are recomputed; == length when warm
  bool cold_window = false;         // rebuilt: the window before recompute_from is absent
  NodeId node() const { return path.empty() ? kRoot : path.back(); }
};

// D above.
std::int32_t rebuild_distance(const KvLayout& layout);

class PrefixTree {
 public:
  // `pools`: one per layer class; `aux`: the slots of recurrent state, or null. They, the layout and the context (which may be
  // null) outlive the tree.
  PrefixTree(const KvLayout& layout, std::span<PagePool* const> pools, PagePool* aux = nullptr, const CellContext* context = nullptr);
  ~PrefixTree();

  // The longest usable prefix of `tokens`. Leaves at least the last token to compute. Changes nothing.
  PrefixMatch match(std::span<const std::int32_t> tokens) const;

  // A sequence stands on a node: the path to it is kept until the matching unlock().
  void lock(NodeId node);
  void unlock(NodeId node);

  // Adds the node of `tokens` (kPageRows of them) below `parent` with the caller's pages by class (kNoPage: none) and returns
  // it. The tree takes a reference on each page it adopts. Where the node exists already, it adopts only pages it lacks; read
  // page() for what it holds.
  NodeId insert(NodeId parent, std::span<const std::int32_t> tokens, std::span<const PageId> pages);
  PageId page(NodeId node, std::size_t layer_class) const;

  // The recurrent state after the node's last token, or kNoPage.
  PageId aux(NodeId node) const;
  // Takes over the caller's reference on `slot`; false when the node has a state already (then nothing changes).
  bool set_aux(NodeId node, PageId slot);

  // Marks the windows before the node `up` pages above `node` as worth keeping: a conversation is likely to branch there.
  void mark_snapshot(NodeId node, std::int32_t up = 0);

  // Lets go of up to `pages` pages of a class that nobody else holds; returns how many.
  std::int32_t evict(std::size_t layer_class, std::int32_t pages);
  // Likewise for recurrent states.
  std::int32_t evict_aux(std::int32_t slots);
  // Lets go of everything that no sequence stands on.
  void clear();
  // How many pages of a class evict() could let go of. What admission may count on.
  std::int32_t evictable(std::size_t layer_class) const;
  // How many of those are on a path that is about to be locked.
  std::int32_t evictable_on(std::span<const NodeId> path, std::size_t layer_class) const;

  std::int64_t nodes() const { return nodes_.get().live; }  // without the root
  // For checkers: every node but the root, as it stands.
  struct NodeFacts {
    NodeId id, parent;
    std::span<const std::int32_t> tokens;
    std::span<const PageId> pages;
    PageId aux;
    std::int32_t locks;
    std::uint64_t last_use;
    bool snapshot;
  };
  template <class F>
  void peek_nodes(F f) const {
    const auto& all = nodes_.peek().all;
    for (std::size_t i = 1; i < all.size(); ++i) {
      if (all[i] == nullptr) continue;
      const Node& n = *all[i];
      f(NodeFacts{static_cast<NodeId>(i), n.parent, n.tokens, n.pages.peek(), n.aux.peek(), n.locks.peek(), n.last_use.peek(), n.snapshot.peek()});
    }
  }
  // Structure, locks and page references hold together. ErrorCode::internal with the first thing that does not.
  // `standing`: the nodes sequences stand on, with multiplicity.
  Status check_integrity(std::span<const NodeId> standing) const;

 private:
  struct Node {
    Node(const CellContext* context, NodeId parent, std::span<const std::int32_t> text, std::size_t classes);
    const NodeId parent;
    std::array<std::int32_t, kPageRows> tokens{};  // never changes after construction
    Cell<CellId::tree_children, std::vector<NodeId>> children;
    Cell<CellId::tree_pages, std::vector<PageId>> pages;  // by class
    Cell<CellId::tree_aux, PageId> aux;
    Cell<CellId::tree_locks, std::int32_t> locks;  // sequences standing on this node or below
    Cell<CellId::tree_use, std::uint64_t> last_use;
    Cell<CellId::tree_snapshot, bool> snapshot;
  };
  struct Nodes {
    std::vector<std::unique_ptr<Node>> all;  // by id; null: unused
    std::vector<NodeId> unused;
    std::int64_t live = 0;
  };
  Node& at(NodeId id) const { return *nodes_.get().all[static_cast<std::size_t>(id)]; }
  NodeId child(const Node& node, std::span<const std::int32_t> tokens) const;
  NodeId create(NodeId parent, std::span<const std::int32_t> tokens);
  bool droppable(const Node& node, std::size_t layer_class) const;
  template <class Accept>
  NodeId least_recent(Accept accept) const;
  std::int32_t drop_page(Node& node, std::size_t layer_class);
  std::int32_t drop_aux(Node& node);
  std::int32_t remove_leaf(NodeId id, std::size_t counted_class);
  void touch(Node& node);

  const KvLayout& layout_;
  const std::vector<PagePool*> pools_;
  PagePool* const aux_;
  const CellContext* const context_;
  Cell<CellId::tree_nodes, Nodes> nodes_;
  Cell<CellId::tree_use, std::uint64_t> clock_;
};

}  // namespace plumb::kv
