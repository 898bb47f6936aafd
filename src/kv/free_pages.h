// FreePages: which pages of a pool are free, and where a sequence had best begin.
//
// A bit for each page. Thread rule: one thread. Nothing allocates but the constructor.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace plumb::kv {

using PageId = std::int32_t;

class FreePages {
 public:
  FreePages() = default;
  // All of [0, pages) are free.
  explicit FreePages(std::int32_t pages) : words_(static_cast<std::size_t>((pages + 63) / 64), 0), pages_(pages) {
    for (PageId page = 0; page < pages; ++page) insert(page);
  }

  bool contains(PageId page) const { return page >= 0 && page < pages_ && (word(page) >> (page % 64) & 1) != 0; }
  // REQUIRES: page in [0, pages).
  void insert(PageId page) {
    size_ += contains(page) ? 0 : 1;
    word(page) |= std::uint64_t{1} << (page % 64);
  }
  void erase(PageId page) {
    size_ -= contains(page) ? 1 : 0;
    word(page) &= ~(std::uint64_t{1} << (page % 64));
  }
  std::int32_t size() const { return size_; }

  // The middle of the longest stretch of free pages, so that whoever holds the pages before it has room to grow as well; the first page of a
  // stretch that begins the pool. REQUIRES: size() > 0.
  PageId roomiest() const {
    PageId best = 0;
    PageId longest = 0;
    for (PageId page = next(0, true); page < pages_;) {
      const PageId end = next(page, false);
      if (end - page > longest) {
        longest = end - page;
        best = page == 0 ? page : page + (end - page) / 2;
      }
      page = next(end, true);
    }
    return best;
  }

  // f(page) for each free page, in rising order.
  template <class F>
  void each(F&& f) const {
    for (PageId page = next(0, true); page < pages_; page = next(page + 1, true)) f(page);
  }

 private:
  std::uint64_t& word(PageId page) { return words_[static_cast<std::size_t>(page / 64)]; }
  std::uint64_t word(PageId page) const { return words_[static_cast<std::size_t>(page / 64)]; }
  // The first page from `page` on that is free, or that is not; pages_ when there is none.
  PageId next(PageId page, bool free) const {
    while (page < pages_) {
      const std::uint64_t left = (free ? word(page) : ~word(page)) >> (page % 64);
      if (left != 0) {
        const PageId found = page + std::countr_zero(left);
        return found < pages_ ? found : pages_;
      }
      page = (page / 64 + 1) * 64;
    }
    return pages_;
  }

  std::vector<std::uint64_t> words_;
  std::int32_t pages_ = 0;
  std::int32_t size_ = 0;
};

}  // namespace plumb::kv
