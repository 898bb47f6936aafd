#include "device/cpu/task_runs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace plumb::device {
namespace {

std::vector<std::int64_t> take_all(TaskRuns& runs, int worker, std::int64_t tasks) {
  std::vector<std::int64_t> taken;
  for (std::int64_t t = runs.take(worker, tasks); t != TaskRuns::kNone; t = runs.take(worker, tasks)) taken.push_back(t);
  return taken;
}

TEST(TaskRuns, AWorkerWalksItsRunInOrder) {
  TaskRuns runs(4);
  for (std::int64_t want = 3; want < 5; ++want) EXPECT_EQ(runs.take(1, 12), want);
  EXPECT_EQ(runs.take(3, 12), 9);
  EXPECT_EQ(runs.take(1, 12), 5);
}

TEST(TaskRuns, AnIdleWorkerTakesFromTheEndsOfOtherRuns) {
  TaskRuns runs(3);
  EXPECT_EQ(runs.take(2, 9), 6);  // has begun; workers 0 and 1 have not
  EXPECT_EQ(take_all(runs, 0, 9), (std::vector<std::int64_t>{0, 1, 2, 5, 4, 3, 8, 7}));
  EXPECT_EQ(runs.take(1, 9), TaskRuns::kNone);
  EXPECT_EQ(runs.take(2, 9), TaskRuns::kNone);
}

TEST(TaskRuns, FewerTasksThanWorkers) {
  TaskRuns runs(8);
  std::vector<std::int64_t> all;
  for (int w = 0; w < 8; ++w) {
    for (const std::int64_t t : take_all(runs, w, 3)) all.push_back(t);
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(runs.take(0, 0), TaskRuns::kNone);
}

TEST(TaskRuns, ALaunchBeginsWithWholeRunsAlsoWhenTheEpochComesRound) {
  TaskRuns runs(2);
  for (const std::int64_t launches : {std::int64_t{1}, std::int64_t{5}, std::int64_t{1} << 24, (std::int64_t{1} << 24) - 1}) {
    EXPECT_EQ(take_all(runs, 0, 6), (std::vector<std::int64_t>{0, 1, 2, 5, 4, 3}));
    for (std::int64_t i = 0; i < launches; ++i) runs.next_launch();
  }
  EXPECT_EQ(take_all(runs, 1, 6), (std::vector<std::int64_t>{3, 4, 5, 2, 1, 0}));
}

TEST(TaskRuns, MostTasks) {
  TaskRuns runs(1);
  for (std::int64_t want = 0; want < TaskRuns::kMaxTasks; ++want) ASSERT_EQ(runs.take(0, TaskRuns::kMaxTasks), want);
  EXPECT_EQ(runs.take(0, TaskRuns::kMaxTasks), TaskRuns::kNone);
}

// Threads that take at the same time, in launches with nothing but the end of their threads between them.
TEST(TaskRuns, EachTaskOnceByManyThreads) {
  constexpr int kThreads = 5;
  constexpr std::int64_t kTasks = 1013;
  TaskRuns runs(kThreads);
  for (int launch = 0; launch < 20; ++launch) {
    std::vector<std::vector<std::int64_t>> taken(kThreads);
    {
      std::vector<std::jthread> threads;
      for (int w = 0; w < kThreads; ++w) {
        threads.emplace_back([&, w] { taken[static_cast<std::size_t>(w)] = take_all(runs, w, kTasks); });
      }
    }
    std::vector<int> hits(kTasks);
    for (const auto& of_one : taken) {
      for (const std::int64_t t : of_one) ++hits[static_cast<std::size_t>(t)];
    }
    EXPECT_EQ(std::count(hits.begin(), hits.end(), 1), kTasks);
    runs.next_launch();
  }
}

}  // namespace
}  // namespace plumb::device
