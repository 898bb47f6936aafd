// PagePool: the physical pages of one layer class (or the slots of recurrent state), with their holders counted.
//
// A page has one reference per holder: each sequence whose table names it, and the prefix tree. When the last one lets go the
// page is free, unless a launched step may still read or write it: then it waits in limbo until every step launched before
// has settled (clause C10). Thread rule: one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/cell.h"
#include "kv/free_pages.h"
#include "kv/step_clock.h"

namespace plumb::kv {

class PagePool {
 public:
  // `context` and `clock` may be null (nothing is launched ahead then); otherwise they outlive the pool.
  explicit PagePool(std::int32_t pages, const CellContext* context = nullptr, const StepClock* clock = nullptr);

  // A free page with one reference, or nullopt: the one that follows `after`, the page before it in its sequence, if that is free, since keys
  // in neighbouring pages are read faster (kernels/api/kv_view.h); else one with room behind it. Allocates no memory.
  std::optional<PageId> acquire(PageId after = -1);
  // One more holder. REQUIRES: refs(page) > 0.
  void retain(PageId page);
  // One holder less; returns true when nobody holds the page any more. REQUIRES: refs(page) > 0.
  bool release(PageId page);
  // Frees what waited for steps that have settled since. The StepBook calls it after each.
  void reclaim();

  std::int32_t pages() const { return pages_; }
  std::int32_t free_pages() const { return free_.get().size(); }
  std::int32_t refs(PageId page) const { return refs_.get()[static_cast<std::size_t>(page)]; }

  struct Waiting {
    PageId page;
    std::uint64_t step;  // free when this one has settled
  };
  // For checkers.
  const FreePages& peek_free() const { return free_.peek(); }
  const std::vector<std::int32_t>& peek_refs() const { return refs_.peek(); }
  const std::vector<Waiting>& peek_limbo() const { return limbo_.peek(); }

 private:
  const std::int32_t pages_;
  const StepClock* const clock_;
  Cell<CellId::pool_free, FreePages> free_;
  Cell<CellId::pool_refs, std::vector<std::int32_t>> refs_;
  Cell<CellId::pool_limbo, std::vector<Waiting>> limbo_;
};

}  // namespace plumb::kv
