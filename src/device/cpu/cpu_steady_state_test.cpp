// Ten thousand steps: nothing is left behind and nothing is allocated.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "device/cpu/test_kernels.h"

namespace {

std::atomic<std::uint64_t> g_allocations{0};

void* allocate(std::size_t bytes, std::size_t alignment) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// The whole test binary counts its allocations. The other forms of new and delete end up here. Not inlined: the compiler
// would see free() on what it takes for another allocator's memory.
[[gnu::noinline]] void* operator new(std::size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace plumb::device {
namespace {

using namespace testing;

class SteadyState : public ::testing::TestWithParam<int> {};  // threads; 0: inline
INSTANTIATE_TEST_SUITE_P(Threads, SteadyState, ::testing::Values(0, 1, 2), ::testing::PrintToStringParamName());

TEST_P(SteadyState, TenThousandChainedSubmissionsLeaveNothingAndAllocateNothing) {
  auto queue = open({.threads = GetParam(), .inline_execution = GetParam() == 0});
  auto bank = reserve(*queue, plan_of({{"x", 256}, {"y", 256}}));
  float* x = bank->buffer(0).as<float>();
  float* y = bank->buffer(1).as<float>();
  std::fill(x, x + 64, 0.0F);
  const std::vector<std::byte> zeros(256);
  const LiveCounts idle = queue->live();
  Completion previous;
  const auto step = [&](int i) {
    CommandBuffer buffer = begin(*queue, {.label = "a label that is longer than a small string", .timing = i % 2 != 0,
                                          .after = previous});
    EXPECT_TRUE(buffer->upload(bank->buffer(1), 0, zeros).ok());
    for (int j = 0; j < 4; ++j) {
      EXPECT_TRUE(buffer->launch(launch_of(kAffine, AffineArgs{y, x, 64, 1, 1})).ok());
      EXPECT_TRUE(buffer->copy(bank->buffer(0), 0, bank->buffer(1), 0, 256).ok());
    }
    Completion done = queue->submit(std::move(buffer));
    if (previous) {
      EXPECT_TRUE(previous.wait().ok());  // one ahead, as a chained loop does
    }
    previous = std::move(done);
  };
  for (int i = 0; i < 16; ++i) step(i);  // the pool and its vectors grow to what a step needs
  const std::uint64_t before = g_allocations.load();
  for (int i = 16; i < 10000; ++i) step(i);
  EXPECT_EQ(g_allocations.load() - before, 0U);
  ASSERT_TRUE(previous.wait().ok());
  EXPECT_EQ(queue->live(), idle);
  EXPECT_EQ(x[63], 40000.0F);
  const QueueCounters counters = queue->counters();
  EXPECT_EQ(counters.submissions, 10000U);
  EXPECT_EQ(counters.launches, 40000U);
}

TEST(SteadyState, AllocationsAreReallyCounted) {
  const std::uint64_t before = g_allocations.load();
  std::vector<std::unique_ptr<int>> kept;  // an optimiser may leave out a pair of new and delete
  for (int i = 0; i < 10; ++i) kept.push_back(std::make_unique<int>(i));
  EXPECT_GE(g_allocations.load() - before, 10U);
  EXPECT_EQ(*kept.back(), 9);
}

}  // namespace
}  // namespace plumb::device
