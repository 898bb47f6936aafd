#include "kv/page_pool.h"

#include <gtest/gtest.h>

#include <set>

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
