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

// The whole test binary counts its allocations. The other forms of new and delete end up here; the one that does not throw is
// named as well, because a sanitizer's runtime has its own, and std::stable_sort gives back what it took there with a plain
// delete. Not inlined: the compiler would see free() on what it takes for another allocator's memory.
[[gnu::noinline]] void* operator new(std::size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return operator new(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
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
  const auto submit = [&](int i, const Completion& after) {
    CommandBuffer buffer = begin(*queue, {.label = "a label that is longer than a small string", .timing = i % 2 != 0,
                                          .after = after});
    EXPECT_TRUE(buffer->upload(bank->buffer(1), 0, zeros).ok());
    for (int j = 0; j < 4; ++j) {
      EXPECT_TRUE(buffer->launch(launch_of(kAffine, AffineArgs{y, x, 64, 1, 1})).ok());
      EXPECT_TRUE(buffer->copy(bank->buffer(0), 0, bank->buffer(1), 0, 256).ok());
    }
    return queue->submit(std::move(buffer));
  };
  // The pool grows to the most buffers that are ever in use at once. In the loop below these are the one recorded, the one
  // in flight, the one it follows and one that a worker is about to let go; how many of them coincide is a matter of timing.
  // So start with that many and more, each of them recorded with timing.
  std::vector<Completion> first;
  for (int i = 0; i < 8; ++i) first.push_back(submit(1, i == 0 ? Completion() : first.back()));
  for (const Completion& one : first) ASSERT_TRUE(one.wait().ok());
  Completion previous = first.back();
  first.clear();
  const auto step = [&](int i) {
    Completion done = submit(i, previous);
    EXPECT_TRUE(previous.wait().ok());  // one ahead, as a chained loop does
    previous = std::move(done);
  };
  const std::uint64_t before = g_allocations.load();
  for (int i = 8; i < 10000; ++i) step(i);
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
