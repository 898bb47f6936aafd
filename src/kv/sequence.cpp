#include "kv/sequence.h"

#include <algorithm>
#include <string>

#include "base/check.h"

namespace plumb::kv {

using kernels::kNoPage;

Sequence::Sequence(const KvLayout& layout, std::span<PagePool* const> pools, PrefixTree* tree)
    : layout_(layout), pools_(pools.begin(), pools.end()), tree_(tree), held_(pools.size()) {
  if (tree_ != nullptr) tree_->lock(node_);
}

Sequence::~Sequence() {
  for (std::size_t c = 0; c < held_.size(); ++c) {
    for (const PageId page : held_[c].pages) pools_[c]->release(page);
  }
  if (tree_ != nullptr) tree_->unlock(node_);
}

std::int32_t Sequence::pages_held(std::size_t layer_class) const {
  return static_cast<std::int32_t>(held_[layer_class].pages.size());
}

std::int32_t Sequence::table_index(std::size_t layer_class, std::int32_t logical) const {
  return layout_.classes[layer_class].residency.cell({logical * kPageRows}).table_index;
}

Result<PageId> Sequence::take(std::size_t layer_class) {
  PagePool& pool = *pools_[layer_class];
  if (const auto page = pool.acquire()) return *page;
  if (tree_ != nullptr && tree_->evict(layer_class, 1) > 0) {
    if (const auto page = pool.acquire()) return *page;
  }
  return fail(ErrorCode::capacity, "the KV pool has no free page; this sequence holds " + std::to_string(pages_held(layer_class)) + " of its " +
                  std::to_string(pool.pages()),
              "kv", "layer class " + std::to_string(layer_class), "0 free");
}

void Sequence::append(std::size_t layer_class, PageId page, std::vector<TableChange>& changes) {
  Held& held = held_[layer_class];
  changes.push_back({static_cast<std::int32_t>(layer_class), table_index(layer_class, held.end()), page});
  held.pages.push_back(page);
}

Status Sequence::begin(const PrefixMatch& match, std::vector<TableChange>& changes, std::vector<TableChange>& zero) {
  PLUMB_CHECK(committed_ == 0);
  if (match.length == 0) return {};
  PLUMB_CHECK(tree_ != nullptr);
  tree_->lock(match.node());  // while pages are taken: an eviction must not reach the path
  const Status status = adopt(match, changes, zero);
  // From here the sequence holds the pages of the path itself, and stands where its own computation begins.
  if (match.recompute_from > 0) node_ = match.path[static_cast<std::size_t>(match.recompute_from / kPageRows - 1)];
  tree_->lock(node_);
  tree_->unlock(kRoot);
  tree_->unlock(match.node());
  return status;
}

Status Sequence::adopt(const PrefixMatch& match, std::vector<TableChange>& changes, std::vector<TableChange>& zero) {
  for (std::size_t c = 0; c < held_.size(); ++c) {
    const Residency& r = layout_.classes[c].residency;
    if (r.full()) {
      for (const NodeId node : match.path) {
        const PageId page = tree_->page(node, c);
        pools_[c]->retain(page);
        append(c, page, changes);
      }
      continue;
    }
    // The window at recompute_from: shared pages where it is held, zeroed stand-ins where it is not.
    held_[c].first = r.first_live(match.recompute_from) / kPageRows;
    for (std::int32_t logical = held_[c].first; logical * kPageRows < match.recompute_from; ++logical) {
      if (match.cold_window) {
        PLUMB_ASSIGN(const PageId page, take(c));
        append(c, page, changes);
        zero.push_back(changes.back());
      } else {
        const PageId page = tree_->page(match.path[static_cast<std::size_t>(logical)], c);
        PLUMB_CHECK(page != kNoPage);
        pools_[c]->retain(page);
        append(c, page, changes);
      }
    }
  }
  committed_ = match.recompute_from;
  if (match.cold_window) {
    windows_exact_from_ = match.length;
    for (const KvClass& c : layout_.classes) {
      if (c.residency.full()) continue;
      windows_exact_from_ = std::min(windows_exact_from_, match.length - pages_for(c.residency.window() - 1) * kPageRows);
    }
  }
  return {};
}

Status Sequence::reserve(std::int32_t end, std::vector<TableChange>& changes) {
  for (std::size_t c = 0; c < held_.size(); ++c) {
    while (held_[c].end() * kPageRows < end) {
      PLUMB_ASSIGN(const PageId page, take(c));
      append(c, page, changes);
      PLUMB_CHECK(static_cast<std::int32_t>(held_[c].pages.size()) <= layout_.classes[c].residency.table_pages());
    }
  }
  return {};
}

void Sequence::commit(std::span<const std::int32_t> tokens, std::vector<TableChange>& changes) {
  const auto length = static_cast<std::int32_t>(tokens.size());
  PLUMB_CHECK(length >= committed_);
  if (tree_ != nullptr) {
    for (std::int32_t logical = committed_ / kPageRows; (logical + 1) * kPageRows <= length; ++logical) {
      insert_page(logical, tokens.subspan(static_cast<std::size_t>(logical) * kPageRows, kPageRows), changes);
    }
  }
  committed_ = length;
  for (std::size_t c = 0; c < held_.size(); ++c) drop_before(c, layout_.classes[c].residency.first_live(length) / kPageRows, changes);
}

// The page enters the tree below the sequence's node. Where the tree already holds the same content, the sequence moves over
// to the tree's page and gives up its own, so that equal prefixes are kept once.
void Sequence::insert_page(std::int32_t logical, std::span<const std::int32_t> tokens, std::vector<TableChange>& changes) {
  std::vector<PageId> pages(held_.size(), kNoPage);
  for (std::size_t c = 0; c < held_.size(); ++c) {
    const Held& held = held_[c];
    if (!layout_.classes[c].residency.full() && logical * kPageRows < windows_exact_from_) continue;
    if (logical >= held.first && logical < held.end()) pages[c] = held.pages[static_cast<std::size_t>(logical - held.first)];
  }
  const NodeId node = tree_->insert(node_, tokens, pages);
  for (std::size_t c = 0; c < held_.size(); ++c) {
    const PageId theirs = tree_->page(node, c);
    if (pages[c] == kNoPage || theirs == pages[c] || !layout_.classes[c].residency.full()) continue;
    pools_[c]->retain(theirs);
    pools_[c]->release(pages[c]);
    held_[c].pages[static_cast<std::size_t>(logical - held_[c].first)] = theirs;
    changes.push_back({static_cast<std::int32_t>(c), table_index(c, logical), theirs});
  }
  tree_->lock(node);
  tree_->unlock(node_);
  node_ = node;
}

void Sequence::drop_before(std::size_t layer_class, std::int32_t first_live, std::vector<TableChange>& changes) {
  Held& held = held_[layer_class];
  while (held.first < first_live && !held.pages.empty()) {
    pools_[layer_class]->release(held.pages.front());
    held.pages.erase(held.pages.begin());
    changes.push_back({static_cast<std::int32_t>(layer_class), table_index(layer_class, held.first), kNoPage});
    ++held.first;
  }
}

void Sequence::end(std::vector<TableChange>& changes) {
  for (std::size_t c = 0; c < held_.size(); ++c) drop_before(c, held_[c].end(), changes);
}

void Sequence::mark_snapshot() {
  if (tree_ != nullptr) tree_->mark_snapshot(node_);
}

}  // namespace plumb::kv
