#include "device/cpu/cpu_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <vector>

#include "device/cpu/test_kernels.h"

namespace plumb::device {
namespace {

using namespace testing;

struct MarkArgs {
  std::atomic<int>* hits;
  std::int64_t n;
};
void mark(const MarkArgs& a, Worker& w) {
  for (std::int64_t i = w.claim(); i < a.n; i = w.claim()) a.hits[i].fetch_add(1);
}
const Kernel kMark = make_kernel<MarkArgs, mark>("mark");

// Writes the worker's scratch, or counts what is not as it was written.
struct ScratchArgs {
  std::int32_t value;
  bool write;
  std::int32_t* wrong;  // [workers]
};
void use_scratch(const ScratchArgs& a, Worker& w) {
  auto* scratch = w.scratch_as<std::int32_t>();
  constexpr std::size_t kLast = kWorkerScratchBytes / 4 - 1;
  if (a.write) {
    scratch[0] = scratch[kLast] = a.value + w.index();
  } else if (scratch[0] != a.value + w.index() || scratch[kLast] != a.value + w.index()) {
    ++a.wrong[w.index()];
  }
  if (reinterpret_cast<std::uintptr_t>(scratch) % 64 != 0 || w.scratch().size() != kWorkerScratchBytes) ++a.wrong[w.index()];
}
const Kernel kUseScratch = make_kernel<ScratchArgs, use_scratch>("use_scratch");

class CpuQueueThreads : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Counts, CpuQueueThreads, ::testing::Values(1, 2, 5, 8), ::testing::PrintToStringParamName());

TEST_P(CpuQueueThreads, LaunchesSeeAllWritesOfTheLaunchesBefore) {
  auto queue = open({.threads = GetParam()});
  EXPECT_EQ(queue->info().threads, GetParam());
  constexpr std::int64_t kN = 1000;
  auto bank = reserve(*queue, plan_of({{"x", kN * 4}, {"y", kN * 4}}));
  auto* x = bank->buffer(0).as<float>();
  auto* y = bank->buffer(1).as<float>();
  std::fill(x, x + kN, 1.0F);
  auto buffer = begin(*queue);
  for (int i = 0; i < 200; ++i) {
    // Each reads what another worker wrote: the reversed roles differ in share boundaries through the odd offset.
    ASSERT_TRUE(buffer->launch(launch_of(kAffine, AffineArgs{y, x, kN, 1, 1})).ok());
    ASSERT_TRUE(buffer->launch(launch_of(kAffine, AffineArgs{x, y + 1, kN - 1, 1, 1})).ok());
  }
  const Completion done = queue->submit(std::move(buffer));
  ASSERT_TRUE(done.wait().ok());
  EXPECT_TRUE(done.done());
  // After k pairs x[0] came from the left-shifted chain: 1 + 2 * 200 as long as no stale value was read.
  for (std::int64_t i = 0; i < kN - 200; ++i) ASSERT_EQ(x[i], 401.0F) << i;
}

TEST_P(CpuQueueThreads, SubmissionsRunInOrder) {
  auto queue = open({.threads = GetParam()});
  auto bank = reserve(*queue, plan_of({{"x", 4096 * 4}}));
  auto* x = bank->buffer(0).as<float>();
  std::fill(x, x + 4096, 0.0F);
  std::vector<Completion> all;
  float expected = 0;
  for (int i = 0; i < 100; ++i) {  // x = x * 1.5 + 1 does not commute with x = x * 0.5 - 2
    const bool odd = i % 2 != 0;
    auto buffer = begin(*queue);
    const AffineArgs args{x, x, 4096, odd ? 0.5F : 1.5F, odd ? -2.0F : 1.0F};
    ASSERT_TRUE(buffer->launch(launch_of(kAffine, args)).ok());
    all.push_back(queue->submit(std::move(buffer)));
    expected = expected * args.factor + args.addend;
  }
  ASSERT_TRUE(all.back().wait().ok());
  for (const Completion& one : all) EXPECT_TRUE(one.done());
  for (int i = 0; i < 4096; ++i) ASSERT_EQ(x[i], expected);
}

TEST_P(CpuQueueThreads, ClaimHandsOutEachTaskOnce) {
  auto queue = open({.threads = GetParam()});
  std::vector<std::atomic<int>> hits(777);
  auto buffer = begin(*queue);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(buffer->launch(launch_of(kMark, MarkArgs{hits.data(), 777})).ok());
  ASSERT_TRUE(queue->submit(std::move(buffer)).wait().ok());
  for (const auto& hit : hits) ASSERT_EQ(hit.load(), 3);
}

TEST_P(CpuQueueThreads, ScratchIsPrivateAlignedAndKept) {
  auto queue = open({.threads = GetParam()});
  std::array<std::int32_t, 8> wrong{};
  auto buffer = begin(*queue);
  ASSERT_TRUE(buffer->launch(launch_of(kUseScratch, ScratchArgs{1000, true, wrong.data()})).ok());
  ASSERT_TRUE(buffer->launch(launch_of(kUseScratch, ScratchArgs{1000, false, wrong.data()})).ok());
  ASSERT_TRUE(queue->submit(std::move(buffer)).wait().ok());
  for (const std::int32_t count : wrong) EXPECT_EQ(count, 0);
}

TEST_P(CpuQueueThreads, UploadCopyAndFillSmallAndLarge) {
  auto queue = open({.threads = GetParam()});
  for (const std::uint64_t n : {std::uint64_t{1}, std::uint64_t{7}, std::uint64_t{65536}, std::uint64_t{300001}}) {
    auto bank = reserve(*queue, plan_of({{"a", n + 10}, {"b", n + 10}}));
    std::vector<std::byte> host(n);
    for (std::size_t i = 0; i < n; ++i) host[i] = static_cast<std::byte>(i * 7 + i / 255);
    auto buffer = begin(*queue);
    ASSERT_TRUE(buffer->fill(bank->buffer(0), 0, n + 10, std::byte{0x11}).ok());
    ASSERT_TRUE(buffer->fill(bank->buffer(1), 0, n + 10, std::byte{0x22}).ok());
    ASSERT_TRUE(buffer->upload(bank->buffer(0), 3, host).ok());
    const std::vector<std::byte> expected = host;
    std::fill(host.begin(), host.end(), std::byte{0xEE});  // copied while recording
    ASSERT_TRUE(buffer->copy(bank->buffer(1), 5, bank->buffer(0), 3, n).ok());
    ASSERT_TRUE(buffer->copy(bank->buffer(0), 4, bank->buffer(0), 3, n).ok());  // overlaps itself
    ASSERT_TRUE(queue->submit(std::move(buffer)).wait().ok());
    const auto* a = bank->buffer(0).address;
    const auto* b = bank->buffer(1).address;
    EXPECT_EQ(std::memcmp(b + 5, expected.data(), n), 0) << n;
    EXPECT_EQ(std::memcmp(a + 4, expected.data(), n), 0) << n;
    EXPECT_EQ(b[4], std::byte{0x22});
    EXPECT_EQ(b[5 + n], std::byte{0x22});
    EXPECT_EQ(a[2], std::byte{0x11});
    EXPECT_EQ(a[4 + n], std::byte{0x11});
  }
}

TEST_P(CpuQueueThreads, EmptyBufferCompletes) {
  auto queue = open({.threads = GetParam()});
  EXPECT_TRUE(queue->submit(begin(*queue)).wait().ok());
}

}  // namespace
}  // namespace plumb::device
