#include "kv/prefix_tree.h"

#include <algorithm>
#include <string>

#include "base/check.h"

namespace plumb::kv {

using kernels::kNoPage;

PrefixTree::Node::Node(const CellContext* context, NodeId above, std::span<const std::int32_t> text, std::size_t classes)
    : parent(above), children(context), pages(context, std::vector<PageId>(classes, kNoPage)), aux(context, kNoPage), locks(context),
      last_use(context), snapshot(context) {
  std::copy(text.begin(), text.end(), tokens.begin());
}

PrefixTree::PrefixTree(const KvLayout& layout, std::span<PagePool* const> pools, PagePool* aux, const CellContext* context)
    : layout_(layout), pools_(pools.begin(), pools.end()), aux_(aux), context_(context), nodes_(context), clock_(context) {
  nodes_.update([node = std::make_unique<Node>(context, -1, std::span<const std::int32_t>{}, pools.size())](Nodes& nodes) mutable {
    nodes.all.push_back(std::move(node));
  });
}

PrefixTree::~PrefixTree() {
  for (const auto& node : nodes_.get().all) {
    if (node == nullptr) continue;
    for (std::size_t c = 0; c < pools_.size(); ++c) drop_page(*node, c);
    drop_aux(*node);
  }
}

NodeId PrefixTree::child(const Node& node, std::span<const std::int32_t> tokens) const {
  for (const NodeId id : node.children.get()) {
    if (std::equal(tokens.begin(), tokens.end(), at(id).tokens.begin())) return id;
  }
  return -1;
}

void PrefixTree::touch(Node& node) {
  const std::uint64_t now = clock_.get() + 1;
  clock_.set(now);
  node.last_use.set(now);
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
      const bool held = at(node).pages.get()[c] != kNoPage;
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
    if (windows_held && (aux_ == nullptr || at(node).aux.get() != kNoPage)) windows_held_at = m.length;
  }
  const std::int32_t rebuild_from = aux_ == nullptr ? std::max(0, m.length - rebuild) / kPageRows * kPageRows : 0;
  m.recompute_from = std::max(windows_held_at, rebuild_from);
  m.cold_window = m.recompute_from > windows_held_at;
  return m;
}

void PrefixTree::lock(NodeId node) {
  for (NodeId id = node; id >= 0; id = at(id).parent) {
    at(id).locks.update([](std::int32_t& locks) { ++locks; });
    touch(at(id));
  }
}

void PrefixTree::unlock(NodeId node) {
  for (NodeId id = node; id >= 0; id = at(id).parent) {
    PLUMB_CHECK(at(id).locks.get() > 0);
    at(id).locks.update([](std::int32_t& locks) { --locks; });
  }
}

NodeId PrefixTree::create(NodeId parent, std::span<const std::int32_t> tokens) {
  auto node = std::make_unique<Node>(context_, parent, tokens, pools_.size());
  NodeId id = static_cast<NodeId>(nodes_.get().all.size());
  const bool reuse = !nodes_.get().unused.empty();
  if (reuse) id = nodes_.get().unused.back();
  nodes_.update([id, reuse, node = std::move(node)](Nodes& nodes) mutable {
    if (reuse) {
      nodes.unused.pop_back();
      nodes.all[static_cast<std::size_t>(id)] = std::move(node);
    } else {
      nodes.all.push_back(std::move(node));
    }
    ++nodes.live;
  });
  at(parent).children.update([id](auto& children) { children.push_back(id); });
  return id;
}

NodeId PrefixTree::insert(NodeId parent, std::span<const std::int32_t> tokens, std::span<const PageId> pages) {
  PLUMB_CHECK(tokens.size() == kPageRows && pages.size() == pools_.size());
  NodeId id = child(at(parent), tokens);
  if (id < 0) id = create(parent, tokens);
  Node& node = at(id);
  touch(node);
  for (std::size_t c = 0; c < pools_.size(); ++c) {
    if (node.pages.get()[c] != kNoPage || pages[c] == kNoPage) continue;
    pools_[c]->retain(pages[c]);
    node.pages.update([c, page = pages[c]](auto& held) { held[c] = page; });
  }
  return id;
}

PageId PrefixTree::page(NodeId node, std::size_t layer_class) const { return at(node).pages.get()[layer_class]; }
PageId PrefixTree::aux(NodeId node) const { return at(node).aux.get(); }

bool PrefixTree::set_aux(NodeId node, PageId slot) {
  if (at(node).aux.get() != kNoPage) return false;
  at(node).aux.set(slot);
  return true;
}

void PrefixTree::mark_snapshot(NodeId node, std::int32_t up) {
  std::int32_t pages = 0;
  for (const KvClass& c : layout_.classes) {
    if (!c.residency.full()) pages = std::max(pages, pages_for(c.residency.window() - 1));
  }
  for (; up > 0 && node > kRoot; --up) node = at(node).parent;
  for (NodeId id = node; id > kRoot && pages > 0; id = at(id).parent, --pages) at(id).snapshot.set(true);
}

// Dropping the tree's reference lets the page go only when no sequence holds it too.
bool PrefixTree::droppable(const Node& node, std::size_t layer_class) const {
  const PageId page = node.pages.get()[layer_class];
  return page != kNoPage && pools_[layer_class]->refs(page) == 1;
}

template <class Accept>
NodeId PrefixTree::least_recent(Accept accept) const {
  NodeId oldest = -1;
  const auto& all = nodes_.get().all;
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (all[i] == nullptr || !accept(*all[i])) continue;
    if (oldest < 0 || all[i]->last_use.get() < at(oldest).last_use.get()) oldest = static_cast<NodeId>(i);
  }
  return oldest;
}

std::int32_t PrefixTree::drop_page(Node& node, std::size_t layer_class) {
  const PageId page = node.pages.get()[layer_class];
  if (page == kNoPage) return 0;
  node.pages.update([layer_class](auto& pages) { pages[layer_class] = kNoPage; });
  return pools_[layer_class]->release(page) ? 1 : 0;
}

std::int32_t PrefixTree::drop_aux(Node& node) {
  const PageId slot = node.aux.get();
  if (slot == kNoPage) return 0;
  node.aux.set(kNoPage);
  return aux_->release(slot) ? 1 : 0;
}

std::int32_t PrefixTree::remove_leaf(NodeId id, std::size_t counted_class) {
  std::int32_t freed = 0;
  for (std::size_t c = 0; c < pools_.size(); ++c) {
    const std::int32_t n = drop_page(at(id), c);
    if (c == counted_class) freed = n;
  }
  drop_aux(at(id));
  at(at(id).parent).children.update([id](auto& siblings) { siblings.erase(std::find(siblings.begin(), siblings.end(), id)); });
  nodes_.update([id](Nodes& nodes) {
    nodes.all[static_cast<std::size_t>(id)] = nullptr;
    nodes.unused.push_back(id);
    --nodes.live;
  });
  return freed;
}

std::int32_t PrefixTree::evict(std::size_t layer_class, std::int32_t pages) {
  std::int32_t freed = 0;
  if (!layout_.classes[layer_class].residency.full()) {
    for (const bool snapshots : {false, true}) {
      while (freed < pages) {
        const NodeId id = least_recent([&](const Node& n) { return n.snapshot.get() == snapshots && droppable(n, layer_class); });
        if (id < 0) break;
        freed += drop_page(at(id), layer_class);
      }
    }
    return freed;
  }
  while (freed < pages) {
    const NodeId id = least_recent([](const Node& n) { return n.locks.get() == 0 && n.children.get().empty(); });
    if (id < 0) break;
    freed += remove_leaf(id, layer_class);
  }
  return freed;
}

std::int32_t PrefixTree::evict_aux(std::int32_t slots) {
  std::int32_t freed = 0;
  for (const bool snapshots : {false, true}) {
    while (freed < slots) {
      const NodeId id = least_recent([&](const Node& n) {
        return n.snapshot.get() == snapshots && n.aux.get() != kNoPage && aux_->refs(n.aux.get()) == 1;
      });
      if (id < 0) break;
      freed += drop_aux(at(id));
    }
  }
  return freed;
}

void PrefixTree::clear() {
  for (;;) {
    const NodeId id = least_recent([](const Node& n) { return n.locks.get() == 0 && n.children.get().empty(); });
    if (id < 0) return;
    remove_leaf(id, 0);
  }
}

std::int32_t PrefixTree::evictable(std::size_t layer_class) const {
  std::int32_t pages = 0;
  const bool full = layout_.classes[layer_class].residency.full();
  for (const auto& node : nodes_.get().all) {
    if (node == nullptr || !droppable(*node, layer_class)) continue;
    if (!full || node->locks.get() == 0) ++pages;  // a locked node keeps its full pages; its windows may go
  }
  return pages;
}

std::int32_t PrefixTree::evictable_on(std::span<const NodeId> path, std::size_t layer_class) const {
  return static_cast<std::int32_t>(std::count_if(path.begin(), path.end(), [&](NodeId id) {
    return at(id).locks.get() == 0 && droppable(at(id), layer_class);
  }));
}

Status PrefixTree::check_integrity(std::span<const NodeId> standing) const {
  const auto& all = nodes_.peek().all;
  const auto broken = [](const char* what, std::size_t id) {
    return fail(ErrorCode::internal, what, "prefix tree", "node", std::to_string(id));
  };
  std::vector<std::int32_t> locks(all.size(), 0);
  for (const NodeId s : standing) {
    for (NodeId id = s; id >= 0; id = all[static_cast<std::size_t>(id)]->parent) ++locks[static_cast<std::size_t>(id)];
  }
  std::int64_t live = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] == nullptr) continue;
    const Node& node = *all[i];
    if (node.locks.peek() != locks[i]) return broken("locks differ from the sequences that stand below", i);
    for (std::size_t c = 0; c < pools_.size(); ++c) {
      if (node.pages.peek()[c] != kNoPage && pools_[c]->peek_refs()[static_cast<std::size_t>(node.pages.peek()[c])] < 1) return broken("holds a free page", i);
    }
    for (const NodeId id : node.children.peek()) {
      if (all[static_cast<std::size_t>(id)] == nullptr || all[static_cast<std::size_t>(id)]->parent != static_cast<NodeId>(i)) {
        return broken("a child does not name it as its parent", i);
      }
      for (const NodeId other : node.children.peek()) {
        if (other != id && all[static_cast<std::size_t>(other)]->tokens == all[static_cast<std::size_t>(id)]->tokens) {
          return broken("two children have the same tokens", i);
        }
      }
    }
    if (i != kRoot) ++live;
  }
  if (live != nodes_.peek().live) return broken("the count of nodes is wrong", static_cast<std::size_t>(live));
  return {};
}

}  // namespace plumb::kv
