// PagePool: the physical pages of one layer class, with their holders counted.
//
// A page has one reference per holder: each sequence whose table names it, and the prefix tree. It is free when the last one
// lets go. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace plumb::kv {

using PageId = std::int32_t;

class PagePool {
 public:
  explicit PagePool(std::int32_t pages);

  // A free page with one reference, or nullopt. Allocates no memory.
  std::optional<PageId> acquire();
  // One more holder. REQUIRES: refs(page) > 0.
  void retain(PageId page);
  // One holder less; returns true when the page became free. REQUIRES: refs(page) > 0.
  bool release(PageId page);

  std::int32_t pages() const { return static_cast<std::int32_t>(refs_.size()); }
  std::int32_t free_pages() const { return static_cast<std::int32_t>(free_.size()); }
  std::int32_t refs(PageId page) const { return refs_[static_cast<std::size_t>(page)]; }

 private:
  std::vector<PageId> free_;  // used as a stack: the page freed last is the warmest
  std::vector<std::int32_t> refs_;
};

}  // namespace plumb::kv
