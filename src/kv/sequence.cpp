#include "kv/sequence.h"

#include <algorithm>
#include <string>

#include "base/check.h"

namespace plumb::kv {

using kernels::kNoPage;

Sequence::Sequence(const KvParts& parts, std::int32_t row)
    : parts_(parts), row_(row), held_(parts.context, std::vector<Held>(parts.pools.size())), node_(parts.context, kRoot),
      committed_(parts.context), exact_from_(parts.context), aux_(parts.context, kNoPage), aux_source_(parts.context, kNoPage) {
  if (parts_.tree != nullptr) parts_.tree->lock(kRoot);
}

Sequence::~Sequence() {
  for (std::size_t c = 0; c < parts_.pools.size(); ++c) drop_before(c, held_.get()[c].end());
  if (aux_source_.get() != kNoPage) parts_.aux->release(aux_source_.get());
  if (aux_.get() != kNoPage) parts_.aux->release(aux_.get());
  if (parts_.tree != nullptr) parts_.tree->unlock(node_.get());
  parts_.slots.release_row(row_);
}

std::int32_t Sequence::pages_held(std::size_t layer_class) const {
  return static_cast<std::int32_t>(held_.get()[layer_class].pages.size());
}

std::int32_t Sequence::table_index(std::size_t layer_class, std::int32_t logical) const {
  return parts_.layout.classes[layer_class].residency.cell({logical * kPageRows}).table_index;
}

Result<PageId> Sequence::take(std::size_t layer_class) {
  PagePool& pool = *parts_.pools[layer_class];
  const std::vector<PageId>& held = held_.get()[layer_class].pages;
  const PageId last = held.empty() ? kNoPage : held.back();
  if (const auto page = pool.acquire(last)) return *page;
  if (parts_.tree != nullptr && parts_.tree->evict(layer_class, 1) > 0) {
    if (const auto page = pool.acquire(last)) return *page;
  }
  return fail(ErrorCode::capacity, "the KV pool has no free page; this sequence holds " + std::to_string(pages_held(layer_class)) + " of its " +
                  std::to_string(pool.pages()),
              "kv", "layer class " + std::to_string(layer_class), "0 free");
}

void Sequence::append(std::size_t layer_class, PageId page) {
  parts_.slots.set(static_cast<std::int32_t>(layer_class), row_, table_index(layer_class, held_.get()[layer_class].end()), page);
  held_.update([layer_class, page](auto& held) { held[layer_class].pages.push_back(page); });
}

Status Sequence::begin(const PrefixMatch& match) {
  PLUMB_CHECK(committed_.get() == 0);
  PLUMB_CHECK(match.length == 0 || parts_.tree != nullptr);
  if (match.length == 0) return begin_state(match);
  parts_.tree->lock(match.node());  // while pages are taken: an eviction must not reach the path
  Status status = adopt(match);
  if (status.ok()) status = begin_state(match);
  // From here the sequence holds the pages of the path itself, and stands where its own computation begins.
  const NodeId stand = match.recompute_from > 0 ? match.path[static_cast<std::size_t>(match.recompute_from / kPageRows - 1)] : kRoot;
  parts_.tree->lock(stand);
  parts_.tree->unlock(node_.get());
  node_.set(stand);
  parts_.tree->unlock(match.node());
  return status;
}

Status Sequence::adopt(const PrefixMatch& match) {
  for (std::size_t c = 0; c < parts_.pools.size(); ++c) {
    const Residency& r = parts_.layout.classes[c].residency;
    if (r.full()) {
      for (const NodeId node : match.path) {
        const PageId page = parts_.tree->page(node, c);
        parts_.pools[c]->retain(page);
        append(c, page);
      }
      continue;
    }
    // The window at recompute_from: shared pages where it is held, zeroed stand-ins where it is not.
    const std::int32_t first = r.first_live(match.recompute_from) / kPageRows;
    held_.update([c, first](auto& held) { held[c].first = first; });
    for (std::int32_t logical = first; logical * kPageRows < match.recompute_from; ++logical) {
      if (match.cold_window) {
        PLUMB_ASSIGN(const PageId page, take(c));
        append(c, page);
        parts_.slots.zero(static_cast<std::int32_t>(c), page);
      } else {
        const PageId page = parts_.tree->page(match.path[static_cast<std::size_t>(logical)], c);
        PLUMB_CHECK(page != kNoPage);
        parts_.pools[c]->retain(page);
        append(c, page);
      }
    }
  }
  committed_.set(match.recompute_from);
  if (match.cold_window) {
    std::int32_t exact = match.length;
    for (const KvClass& c : parts_.layout.classes) {
      if (!c.residency.full()) exact = std::min(exact, match.length - pages_for(c.residency.window() - 1) * kPageRows);
    }
    exact_from_.set(exact);
  }
  return {};
}

// A slot of its own for the recurrent state, and a hold on the cached state it starts from.
Status Sequence::begin_state(const PrefixMatch& match) {
  if (parts_.aux == nullptr) return {};
  if (match.recompute_from > 0) {
    const PageId source = parts_.tree->aux(match.path[static_cast<std::size_t>(match.recompute_from / kPageRows - 1)]);
    PLUMB_CHECK(source != kNoPage);
    parts_.aux->retain(source);
    aux_source_.set(source);
  }
  auto slot = parts_.aux->acquire();
  if (!slot && parts_.tree != nullptr && parts_.tree->evict_aux(1) > 0) slot = parts_.aux->acquire();
  if (!slot) return fail(ErrorCode::capacity, "no free slot for the recurrent state", "kv", "state slots", std::to_string(parts_.aux->pages()) + " in use");
  aux_.set(*slot);
  return {};
}

void Sequence::state_copied() {
  if (aux_source_.get() == kNoPage) return;
  parts_.aux->release(aux_source_.get());
  aux_source_.set(kNoPage);
}

Status Sequence::reserve(std::int32_t end) {
  for (std::size_t c = 0; c < parts_.pools.size(); ++c) {
    while (held_.get()[c].end() * kPageRows < end) {
      PLUMB_ASSIGN(const PageId page, take(c));
      append(c, page);
      PLUMB_CHECK(pages_held(c) <= parts_.layout.classes[c].residency.table_pages());
    }
  }
  return {};
}

void Sequence::commit(std::span<const std::int32_t> tokens) {
  const auto length = static_cast<std::int32_t>(tokens.size());
  const std::int32_t before = committed_.get();
  PLUMB_CHECK(length >= before);
  if (parts_.tree != nullptr) {
    for (std::int32_t logical = before / kPageRows; (logical + 1) * kPageRows <= length; ++logical) {
      insert_page(logical, tokens.subspan(static_cast<std::size_t>(logical) * kPageRows, kPageRows));
    }
  }
  committed_.set(length);
  for (std::size_t c = 0; c < parts_.pools.size(); ++c) {
    drop_before(c, parts_.layout.classes[c].residency.first_live(length) / kPageRows);
  }
}

// The page enters the tree below the sequence's node. Where the tree already holds the same content, the sequence moves over
// to the tree's page and gives up its own, so that equal prefixes are kept once.
void Sequence::insert_page(std::int32_t logical, std::span<const std::int32_t> tokens) {
  std::vector<PageId> pages(parts_.pools.size(), kNoPage);
  for (std::size_t c = 0; c < pages.size(); ++c) {
    const Held& held = held_.get()[c];
    if (!parts_.layout.classes[c].residency.full() && logical * kPageRows < exact_from_.get()) continue;
    if (logical >= held.first && logical < held.end()) pages[c] = held.pages[static_cast<std::size_t>(logical - held.first)];
  }
  const NodeId before = node_.get();
  const NodeId node = parts_.tree->insert(before, tokens, pages);
  for (std::size_t c = 0; c < pages.size(); ++c) {
    const PageId theirs = parts_.tree->page(node, c);
    if (pages[c] == kNoPage || theirs == pages[c] || !parts_.layout.classes[c].residency.full()) continue;
    parts_.pools[c]->retain(theirs);
    parts_.pools[c]->release(pages[c]);
    const auto i = static_cast<std::size_t>(logical - held_.get()[c].first);
    held_.update([c, i, theirs](auto& held) { held[c].pages[i] = theirs; });
    parts_.slots.set(static_cast<std::int32_t>(c), row_, table_index(c, logical), theirs);
  }
  parts_.tree->lock(node);
  parts_.tree->unlock(before);
  node_.set(node);
}

void Sequence::adopt_state(std::int32_t length, PageId slot) {
  PLUMB_CHECK(length == committed_.get());
  const bool taken = parts_.tree != nullptr && length > 0 && length % kPageRows == 0 && parts_.tree->set_aux(node_.get(), slot);
  if (!taken) parts_.aux->release(slot);
}

void Sequence::drop_before(std::size_t layer_class, std::int32_t first_live) {
  while (held_.get()[layer_class].first < first_live && !held_.get()[layer_class].pages.empty()) {
    const std::int32_t first = held_.get()[layer_class].first;
    parts_.pools[layer_class]->release(held_.get()[layer_class].pages.front());
    held_.update([layer_class](auto& held) {
      held[layer_class].pages.erase(held[layer_class].pages.begin());
      ++held[layer_class].first;
    });
    parts_.slots.set(static_cast<std::int32_t>(layer_class), row_, table_index(layer_class, first), kNoPage);
  }
}

void Sequence::mark_snapshot(std::int32_t length) {
  PLUMB_CHECK(length <= committed_.get());
  if (parts_.tree != nullptr) parts_.tree->mark_snapshot(node_.get(), committed_.get() / kPageRows - length / kPageRows);
}

}  // namespace plumb::kv
