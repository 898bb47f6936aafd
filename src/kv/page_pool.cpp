#include "kv/page_pool.h"

#include "base/check.h"

namespace plumb::kv {

PagePool::PagePool(std::int32_t pages, const CellContext* context, const StepClock* clock)
    : pages_(pages), clock_(clock), free_(context, FreePages(pages)), refs_(context, std::vector<std::int32_t>(static_cast<std::size_t>(pages), 0)), limbo_(context) {}

std::optional<PageId> PagePool::acquire(PageId after) {
  const FreePages& free = free_.get();
  if (free.size() == 0) return std::nullopt;
  const PageId page = after >= 0 && free.contains(after + 1) ? after + 1 : free.roomiest();
  free_.update([page](auto& pages) { pages.erase(page); });
  refs_.update([page](auto& refs) { refs[static_cast<std::size_t>(page)] = 1; });
  return page;
}

void PagePool::retain(PageId page) {
  PLUMB_CHECK(refs(page) > 0);
  refs_.update([page](auto& refs) { ++refs[static_cast<std::size_t>(page)]; });
}

bool PagePool::release(PageId page) {
  const std::int32_t before = refs(page);
  PLUMB_CHECK(before > 0);
  refs_.update([page](auto& refs) { --refs[static_cast<std::size_t>(page)]; });
  if (before > 1) return false;
  if (clock_ != nullptr && clock_->launched.get() > clock_->settled.get()) {
    limbo_.update([waiting = Waiting{page, clock_->launched.get()}](auto& limbo) { limbo.push_back(waiting); });
  } else {
    free_.update([page](auto& pages) { pages.insert(page); });
  }
  return true;
}

void PagePool::reclaim() {
  if (limbo_.get().empty()) return;
  const std::uint64_t settled = clock_->settled.get();
  std::size_t done = 0;
  while (done < limbo_.get().size() && limbo_.get()[done].step <= settled) {
    free_.update([page = limbo_.get()[done].page](auto& pages) { pages.insert(page); });
    ++done;
  }
  if (done > 0) limbo_.update([done](auto& limbo) { limbo.erase(limbo.begin(), limbo.begin() + static_cast<std::ptrdiff_t>(done)); });
}

}  // namespace plumb::kv
