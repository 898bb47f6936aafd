#include "kv/prefix_tree.h"

#include <algorithm>
#include <string>

#include "base/check.h"

namespace plumb::kv {

using kernels::kNoPage;

PrefixTree::PrefixTree(const KvLayout& layout, std::span<PagePool* const> pools)
    : layout_(layout), pools_(pools.begin(), pools.end()) {
  nodes_.push_back(std::make_unique<Node>());
  at(kRoot).pages.assign(pools_.size(), kNoPage);
}

PrefixTree::~PrefixTree() {
  for (const auto& node : nodes_) {
    if (node == nullptr) continue;
    for (std::size_t c = 0; c < pools_.size(); ++c) {
      if (node->pages[c] != kNoPage) pools_[c]->release(node->pages[c]);
    }
  }
}

NodeId PrefixTree::child(const Node& node, std::span<const std::int32_t> tokens) const {
  for (const NodeId id : node.children) {
    if (std::equal(tokens.begin(), tokens.end(), at(id).tokens.begin())) return id;
  }
  return -1;
}

std::int32_t rebuild_distance(const KvLayout& layout) {
  std::int32_t rows = kPageRows;  // the first of the pages that must be exact may begin up to a page before the window
  for (const KvClass& c : layout.classes) {
    if (!c.residency.full()) rows += c.layers * (c.residency.window() - 1);
  }
  return rows;
}

PrefixMatch PrefixTree::match(std::span<const std::int32_t> tokens) const {
  PrefixMatch m;
  const std::size_t classes = pools_.size();
  // run[c]: how many nodes in a row, ending at the current one, hold a page of class c.
  std::vector<std::int32_t> run(classes, 0);
  const std::int32_t rebuild = rebuild_distance(layout_);
  std::int32_t windows_held_at = 0;
  NodeId node = kRoot;
  while (m.length + kPageRows < static_cast<std::int32_t>(tokens.size())) {
    node = child(at(node), tokens.subspan(static_cast<std::size_t>(m.length), kPageRows));
    if (node < 0) break;
    bool full_held = true;
    bool windows_held = true;
    const std::int32_t depth = m.length / kPageRows + 1;
    for (std::size_t c = 0; c < classes; ++c) {
      const bool held = at(node).pages[c] != kNoPage;
      run[c] = held ? run[c] + 1 : 0;
      const Residency& r = layout_.classes[c].residency;
      if (r.full()) {
        full_held = full_held && held;
      } else {
        windows_held = windows_held && run[c] >= std::min(depth, pages_for(r.window() - 1));
      }
    }
    if (!full_held) break;
    m.path.push_back(node);
    m.length += kPageRows;
    if (windows_held) windows_held_at = m.length;
  }
  const std::int32_t rebuild_from = std::max(0, m.length - rebuild) / kPageRows * kPageRows;
  m.recompute_from = std::max(windows_held_at, rebuild_from);
  m.cold_window = m.recompute_from > windows_held_at;
  return m;
}

void PrefixTree::lock(NodeId node) {
  ++clock_;
  for (NodeId id = node; id >= 0; id = at(id).parent) {
    ++at(id).locks;
    at(id).last_use = clock_;
  }
}

void PrefixTree::unlock(NodeId node) {
  for (NodeId id = node; id >= 0; id = at(id).parent) {
    PLUMB_CHECK(at(id).locks > 0);
    --at(id).locks;
  }
}

NodeId PrefixTree::insert(NodeId parent, std::span<const std::int32_t> tokens, std::span<const PageId> pages) {
  PLUMB_CHECK(tokens.size() == kPageRows && pages.size() == pools_.size());
  NodeId id = child(at(parent), tokens);
  if (id < 0) {
    if (unused_.empty()) {
      id = static_cast<NodeId>(nodes_.size());
      nodes_.push_back(nullptr);
    } else {
      id = unused_.back();
      unused_.pop_back();
    }
    nodes_[static_cast<std::size_t>(id)] = std::make_unique<Node>();
    Node& created = at(id);
    created.parent = parent;
    std::copy(tokens.begin(), tokens.end(), created.tokens.begin());
    created.pages.assign(pools_.size(), kNoPage);
    at(parent).children.push_back(id);
    ++live_;
  }
  Node& node = at(id);
  node.last_use = ++clock_;
  for (std::size_t c = 0; c < pools_.size(); ++c) {
    if (node.pages[c] != kNoPage || pages[c] == kNoPage) continue;
    node.pages[c] = pages[c];
    pools_[c]->retain(pages[c]);
  }
  return id;
}

PageId PrefixTree::page(NodeId node, std::size_t layer_class) const { return at(node).pages[layer_class]; }

void PrefixTree::mark_snapshot(NodeId node) {
  std::int32_t pages = 0;
  for (const KvClass& c : layout_.classes) {
    if (!c.residency.full()) pages = std::max(pages, pages_for(c.residency.window() - 1));
  }
  for (NodeId id = node; id > kRoot && pages > 0; id = at(id).parent, --pages) at(id).snapshot = true;
}

// Dropping the tree's reference frees the page only when no sequence holds it too.
bool PrefixTree::droppable(const Node& node, std::size_t layer_class) const {
  return node.pages[layer_class] != kNoPage && pools_[layer_class]->refs(node.pages[layer_class]) == 1;
}

NodeId PrefixTree::least_recent_window(std::size_t layer_class, bool snapshots) const {
  NodeId oldest = -1;
  for (std::size_t i = 1; i < nodes_.size(); ++i) {
    if (nodes_[i] == nullptr || nodes_[i]->snapshot != snapshots || !droppable(*nodes_[i], layer_class)) continue;
    if (oldest < 0 || nodes_[i]->last_use < at(oldest).last_use) oldest = static_cast<NodeId>(i);
  }
  return oldest;
}

NodeId PrefixTree::least_recent_leaf() const {
  NodeId oldest = -1;
  for (std::size_t i = 1; i < nodes_.size(); ++i) {
    if (nodes_[i] == nullptr || nodes_[i]->locks > 0 || !nodes_[i]->children.empty()) continue;
    if (oldest < 0 || nodes_[i]->last_use < at(oldest).last_use) oldest = static_cast<NodeId>(i);
  }
  return oldest;
}

std::int32_t PrefixTree::drop_page(Node& node, std::size_t layer_class) {
  const PageId page = std::exchange(node.pages[layer_class], kNoPage);
  return page != kNoPage && pools_[layer_class]->release(page) ? 1 : 0;
}

std::int32_t PrefixTree::remove_leaf(NodeId id, std::size_t counted_class) {
  std::int32_t freed = 0;
  for (std::size_t c = 0; c < pools_.size(); ++c) {
    const std::int32_t n = drop_page(at(id), c);
    if (c == counted_class) freed = n;
  }
  auto& siblings = at(at(id).parent).children;
  siblings.erase(std::find(siblings.begin(), siblings.end(), id));
  nodes_[static_cast<std::size_t>(id)] = nullptr;
  unused_.push_back(id);
  --live_;
  return freed;
}

std::int32_t PrefixTree::evict(std::size_t layer_class, std::int32_t pages) {
  std::int32_t freed = 0;
  if (!layout_.classes[layer_class].residency.full()) {
    for (const bool snapshots : {false, true}) {
      while (freed < pages) {
        const NodeId id = least_recent_window(layer_class, snapshots);
        if (id < 0) break;
        freed += drop_page(at(id), layer_class);
      }
    }
    return freed;
  }
  while (freed < pages) {
    const NodeId id = least_recent_leaf();
    if (id < 0) break;
    freed += remove_leaf(id, layer_class);
  }
  return freed;
}

Status PrefixTree::check_integrity(std::span<const NodeId> standing) const {
  const auto broken = [](const char* what, std::size_t id) {
    return fail(ErrorCode::internal, what, "prefix tree", "node", std::to_string(id));
  };
  std::vector<std::int32_t> locks(nodes_.size(), 0);
  for (const NodeId s : standing) {
    for (NodeId id = s; id >= 0; id = at(id).parent) ++locks[static_cast<std::size_t>(id)];
  }
  std::int64_t live = 0;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i] == nullptr) continue;
    const Node& node = *nodes_[i];
    if (node.locks != locks[i]) return broken("locks differ from the sequences that stand below", i);
    for (std::size_t c = 0; c < pools_.size(); ++c) {
      if (node.pages[c] != kNoPage && pools_[c]->refs(node.pages[c]) < 1) return broken("holds a free page", i);
    }
    for (const NodeId id : node.children) {
      if (nodes_[static_cast<std::size_t>(id)] == nullptr || at(id).parent != static_cast<NodeId>(i)) {
        return broken("a child does not name it as its parent", i);
      }
      if (child(node, at(id).tokens) != id) return broken("two children have the same tokens", i);
    }
    if (i != kRoot) ++live;
  }
  if (live != live_) return broken("the count of nodes is wrong", static_cast<std::size_t>(live));
  return {};
}

}  // namespace plumb::kv
