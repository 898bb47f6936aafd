#include "device/cpu/barrier.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace plumb::device {
namespace {

class BarrierOf : public ::testing::TestWithParam<int> {};
// Around the edges of the tree's levels.
INSTANTIATE_TEST_SUITE_P(Threads, BarrierOf, ::testing::Values(1, 2, 4, 5, 16, 17, 64, 65), ::testing::PrintToStringParamName());

TEST_P(BarrierOf, NobodyPassesBeforeAllAreThereAndOneRunsTheFunction) {
  const int count = GetParam();
  constexpr int kRounds = 50;
  Barrier barrier(count, 0);
  std::atomic<int> arrived{0};
  std::atomic<int> wrong{0};
  int settled = 0;  // by the last of each round, read by all after it
  std::vector<std::jthread> threads;
  for (int t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      SpinMemory memory;
      for (int round = 0; round < kRounds; ++round) {
        arrived.fetch_add(1);
        barrier.arrive(t, memory, [&] {
          if (arrived.load() != count * (round + 1)) wrong.fetch_add(1);
          ++settled;
        });
        if (settled != round + 1) wrong.fetch_add(1);
        barrier.arrive(t, memory, [] {});  // all have read before the next round settles
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(settled, kRounds);
}

}  // namespace
}  // namespace plumb::device
