#include "kv/free_pages.h"

#include <gtest/gtest.h>

#include <set>

#include "base/counter_rng.h"

namespace plumb::kv {
namespace {

std::vector<PageId> listed(const FreePages& free) {
  std::vector<PageId> pages;
  free.each([&](PageId page) { pages.push_back(page); });
  return pages;
}

// A set of integers, and the longest stretch found the slow way, beside it.
TEST(FreePages, IsASetThatKnowsItsLongestStretch) {
  for (const std::int32_t pages : {1, 2, 63, 64, 65, 130, 300}) {
    FreePages free(pages);
    std::set<PageId> model;
    for (PageId page = 0; page < pages; ++page) model.insert(page);
    const Philox random{static_cast<std::uint32_t>(pages)};
    for (std::uint64_t i = 0; i < 2000; ++i) {
      const auto draw = random.block(i);
      const auto page = static_cast<PageId>(draw[0] % static_cast<std::uint32_t>(pages));
      // Mostly taken in one half of the time, mostly given back in the other; twice changes nothing.
      if ((draw[1] % 4 == 0) == (i / 500 % 2 == 0)) {
        free.insert(page);
        model.insert(page);
      } else {
        free.erase(page);
        model.erase(page);
      }
      ASSERT_EQ(free.size(), static_cast<std::int32_t>(model.size()));
      ASSERT_EQ(free.contains(page), model.contains(page));
      if (i % 50 == 0) {
        ASSERT_EQ(listed(free), std::vector<PageId>(model.begin(), model.end()));
      }
      if (model.empty()) continue;
      PageId longest = 0;
      PageId wanted = 0;
      for (PageId first = 0; first < pages; ++first) {
        PageId end = first;
        while (model.contains(end)) ++end;
        if (end - first > longest) {
          longest = end - first;
          wanted = first == 0 ? 0 : first + (end - first) / 2;
        }
      }
      ASSERT_EQ(free.roomiest(), wanted);
    }
  }
}

TEST(FreePages, KnowsNoPagesOutside) {
  const FreePages free(3);
  EXPECT_FALSE(free.contains(-1));
  EXPECT_FALSE(free.contains(3));
  EXPECT_EQ(FreePages().size(), 0);
}

}  // namespace
}  // namespace plumb::kv
