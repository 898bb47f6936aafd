#include "kv/page_pool.h"

#include "base/check.h"

namespace plumb::kv {

PagePool::PagePool(std::int32_t pages) : refs_(static_cast<std::size_t>(pages), 0) {
  free_.reserve(refs_.size());
  for (PageId page = pages - 1; page >= 0; --page) free_.push_back(page);
}

std::optional<PageId> PagePool::acquire() {
  if (free_.empty()) return std::nullopt;
  const PageId page = free_.back();
  free_.pop_back();
  refs_[static_cast<std::size_t>(page)] = 1;
  return page;
}

void PagePool::retain(PageId page) {
  PLUMB_CHECK(refs(page) > 0);
  ++refs_[static_cast<std::size_t>(page)];
}

bool PagePool::release(PageId page) {
  PLUMB_CHECK(refs(page) > 0);
  if (--refs_[static_cast<std::size_t>(page)] > 0) return false;
  free_.push_back(page);
  return true;
}

}  // namespace plumb::kv
