#include "kv/page_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace plumb::kv {
namespace {

TEST(PagePool, HandsOutEachPageOnceAndThenNone) {
  PagePool pool(3);
  std::set<PageId> pages;
  for (int i = 0; i < 3; ++i) pages.insert(pool.acquire().value());
  EXPECT_EQ(pages, (std::set<PageId>{0, 1, 2}));
  EXPECT_FALSE(pool.acquire().has_value());
}

TEST(PagePool, AHeldPageStaysUntilItsLastHolderLetsGo) {
  PagePool pool(1);
  const PageId page = pool.acquire().value();
  pool.retain(page);
  EXPECT_FALSE(pool.release(page));
  EXPECT_EQ(pool.free_pages(), 0);
  EXPECT_TRUE(pool.release(page));
  EXPECT_EQ(pool.free_pages(), 1);
}

// Sequences that grow page by page in turn, as when several requests decode together: each is a few stretches of neighbouring pages.
TEST(PagePool, GrowingSequencesStayOutOfEachOthersWay) {
  constexpr int kSequences = 5;
  constexpr int kEach = 100;
  PagePool pool(kSequences * kEach * 2);
  std::vector<PageId> last(kSequences, -1);
  std::vector<int> stretches(kSequences, 0);
  for (int i = 0; i < kEach; ++i) {
    for (std::size_t s = 0; s < kSequences; ++s) {
      const PageId page = pool.acquire(last[s]).value();
      stretches[s] += page == last[s] + 1 && i > 0 ? 0 : 1;
      last[s] = page;
    }
  }
  for (const int n : stretches) EXPECT_LE(n, 3);
}

TEST(PagePool, ASequenceHasItsPagesInOrderWhateverWasHereBefore) {
  PagePool pool(40);
  for (int round = 0; round < 3; ++round) {
    std::vector<PageId> pages;
    for (int i = 0; i < 40; ++i) pages.push_back(pool.acquire(pages.empty() ? -1 : pages.back()).value());
    for (int i = 0; i < 40; ++i) EXPECT_EQ(pages[static_cast<std::size_t>(i)], i);
    if (round == 1) std::reverse(pages.begin(), pages.end());
    for (const PageId page : pages) pool.release(page);
  }
}

// Clause C10: a page goes to nobody while a launched step may touch it.
TEST(PagePool, APageOfALaunchedStepWaitsUntilItHasSettled) {
  StepClock clock(nullptr);
  PagePool pool(2, nullptr, &clock);
  const PageId a = pool.acquire().value();
  const PageId b = pool.acquire().value();
  clock.launched.set(1);
  EXPECT_TRUE(pool.release(a));
  clock.launched.set(2);
  EXPECT_TRUE(pool.release(b));
  EXPECT_FALSE(pool.acquire().has_value());
  clock.settled.set(1);
  pool.reclaim();
  EXPECT_EQ(pool.acquire(), a);
  EXPECT_FALSE(pool.acquire().has_value());
  clock.settled.set(2);
  pool.reclaim();
  EXPECT_EQ(pool.acquire(), b);
}

}  // namespace
}  // namespace plumb::kv
