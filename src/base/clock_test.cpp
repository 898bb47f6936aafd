#include "base/clock.h"

#include <gtest/gtest.h>

namespace plumb {
namespace {

TEST(Clock, MonotonicNeverGoesBackAndMoves) {
  const MonotonicClock clock;
  const std::uint64_t start = clock.now_ns();
  std::uint64_t last = start;
  while (last == start) {  // ends: the clock has nanosecond ticks
    const std::uint64_t now = clock.now_ns();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(Clock, VirtualMovesOnlyWhenTold) {
  VirtualClock clock(5);
  EXPECT_EQ(clock.now_ns(), 5U);
  EXPECT_EQ(clock.now_ns(), 5U);
  clock.advance_ns(7);
  EXPECT_EQ(clock.now_ns(), 12U);
}

}  // namespace
}  // namespace plumb
