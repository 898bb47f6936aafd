#include "device/cpu/cpu_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <thread>
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
void mark_by_runs(const MarkArgs& a, Worker& w) {
  for (std::int64_t i = w.take(a.n); i != TaskRuns::kNone; i = w.take(a.n)) a.hits[i].fetch_add(1);
}
const Kernel kMarkByRuns = make_kernel<MarkArgs, mark_by_runs>("mark_by_runs");

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

TEST_P(CpuQueueThreads, TakeHandsOutEachTaskOnce) {
  auto queue = open({.threads = GetParam()});
  std::vector<std::atomic<int>> hits(777);
  for (int k = 0; k < 50; ++k) {
    auto buffer = begin(*queue);
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(buffer->launch(launch_of(kMarkByRuns, MarkArgs{hits.data(), 777})).ok());
      ASSERT_TRUE(buffer->launch(launch_of(kMark, MarkArgs{hits.data(), 777})).ok());
    }
    ASSERT_TRUE(queue->submit(std::move(buffer)).wait().ok());
    for (const auto& hit : hits) ASSERT_EQ(hit.load(), 6 * (k + 1));
  }
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

TEST(CpuQueue, SameBitsWithAnyNumberOfThreads) {
  constexpr std::int64_t kRows = 173;
  constexpr std::int64_t kColumns = 331;
  std::vector<float> in(kRows * kColumns);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>((i * 2654435761U) % 10007) * 1.37e-3F;
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 2, 5}) {
    auto queue = open({.threads = threads});
    std::vector<float> sums(kRows);
    std::vector<float> out(kRows);
    CommandBuffer buffer = begin(*queue);
    ASSERT_TRUE(buffer->launch(launch_of(kRowSum, RowSumArgs{sums.data(), in.data(), kRows, kColumns})).ok());
    ASSERT_TRUE(buffer->launch(launch_of(kAffine, AffineArgs{out.data(), sums.data(), kRows, 0.3F, 0.7F})).ok());
    ASSERT_TRUE(queue->submit(std::move(buffer)).wait().ok());
    results.push_back(out);
  }
  for (const auto& result : results) {
    EXPECT_EQ(std::memcmp(result.data(), results[0].data(), result.size() * sizeof(float)), 0);
  }
}

TEST(CpuQueue, RefusesBadOptions) {
  EXPECT_EQ(open_cpu_queue({.threads = -1}).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(open_cpu_queue({.threads = kMaxCpuThreads + 1}).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(open_cpu_queue({.hold = true}).error().field, "hold");
  auto queue = open({});
  EXPECT_GE(queue->info().threads, 1);
  EXPECT_EQ(queue->info().backend, Backend::cpu);
  EXPECT_FALSE(queue->info().name.empty());
}

TEST(CpuQueue, FailedRecordingRunsNothing) {
  auto queue = open({.threads = 2});
  auto bank = reserve(*queue, plan_of({{"x", 64}, {"y", 32}}));
  const Buffer x = bank->buffer(0);
  const Buffer y = bank->buffer(1);
  std::memset(x.address, 1, 64);
  const std::vector<std::byte> bytes(65);
  const Kernel foreign{"gpu", Backend::cuda, kAffine.entry};
  const AffineArgs args{x.as<float>(), x.as<float>(), 16, 2, 0};
  std::array<std::byte, kMaxArgsBytes + 1> big{};
  const std::vector<std::function<Status(CommandBuffer&)>> mistakes = {
      [&](CommandBuffer& b) { return b->launch(launch_of(foreign, args)); },
      [&](CommandBuffer& b) { return b->launch({.args = &args, .args_bytes = sizeof args}); },
      [&](CommandBuffer& b) { return b->launch(launch_of(kAffine, big)); },
      [&](CommandBuffer& b) { return b->upload(x, 0, bytes); },
      [&](CommandBuffer& b) { return b->upload(x, 65, std::span(bytes).first(0)); },
      [&](CommandBuffer& b) { return b->upload(x, UINT64_MAX, std::span(bytes).first(2)); },
      [&](CommandBuffer& b) { return b->copy(y, 0, x, 0, 33); },
      [&](CommandBuffer& b) { return b->copy(x, 0, y, 0, 33); },
      [&](CommandBuffer& b) { return b->copy(x, 0, y, 1, UINT64_MAX); },
      [&](CommandBuffer& b) { return b->fill(x, 60, 5, std::byte{0}); },
  };
  for (const auto& mistake : mistakes) {
    CommandBuffer buffer = begin(*queue);
    ASSERT_TRUE(buffer->fill(x, 0, 64, std::byte{0}).ok());
    const Status told = mistake(buffer);
    ASSERT_FALSE(told.ok());
    EXPECT_EQ(told.error().code, ErrorCode::invalid_argument);
    const Status status = queue->submit(std::move(buffer)).wait();
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().to_string(), told.error().to_string());
    EXPECT_EQ(x.address[0], std::byte{1});
  }
  EXPECT_TRUE(queue->submit(begin(*queue)).wait().ok());
}

TEST(CpuQueue, ForeignAndSpentBuffersAreRefusedAtTheCompletion) {
  auto queue = open({.threads = 1});
  auto other = open({.threads = 1});
  CommandBuffer buffer = begin(*other);
  EXPECT_EQ(queue->submit(std::move(buffer)).wait().error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(other->live(), LiveCounts{}) << "abandoned";
  EXPECT_EQ(queue->submit(std::move(buffer)).wait().error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(queue->live(), LiveCounts{});
}

TEST(CpuQueue, InlineRunsInOrderOnTheWaitingThread) {
  auto queue = open({.threads = 4, .inline_execution = true});
  EXPECT_EQ(queue->info().threads, 1);
  std::vector<float> x(16, 0.0F);
  const auto submit = [&](float factor, float addend) {
    CommandBuffer buffer = begin(*queue);
    EXPECT_TRUE(buffer->launch(launch_of(kAffine, AffineArgs{x.data(), x.data(), 16, factor, addend})).ok());
    return queue->submit(std::move(buffer));
  };
  const Completion first = submit(1, 3);
  const Completion second = submit(2, 0);
  EXPECT_TRUE(first.done()) << "waiting depends on nobody else";
  EXPECT_EQ(x[0], 0.0F) << "but nothing has run";
  EXPECT_EQ(queue->live().in_flight, 2U);
  EXPECT_FALSE(queue->release_next());
  ASSERT_TRUE(second.wait().ok());
  EXPECT_EQ(x[0], 6.0F);
  ASSERT_TRUE(first.wait().ok());
  EXPECT_EQ(queue->counters().host_waits, 1U);
}

TEST(CpuQueue, HeldBuffersCompleteWhenReleased) {
  auto queue = open({.inline_execution = true, .hold = true});
  std::vector<float> x(16, 0.0F);
  std::vector<Completion> all;
  for (int i = 0; i < 4; ++i) {
    CommandBuffer buffer = begin(*queue);
    ASSERT_TRUE(buffer->launch(launch_of(kAffine, AffineArgs{x.data(), x.data(), 16, 1, 1})).ok());
    all.push_back(queue->submit(std::move(buffer)));
  }
  EXPECT_FALSE(all[0].done());
  EXPECT_TRUE(queue->release_next());
  EXPECT_TRUE(all[0].done());
  EXPECT_FALSE(all[1].done());
  EXPECT_EQ(x[0], 1.0F);
  ASSERT_TRUE(all[0].wait().ok());
  EXPECT_EQ(queue->counters().host_waits, 0U) << "a late look at a finished buffer is no wait";
  ASSERT_TRUE(all[2].wait().ok()) << "a blocked host lets time pass";
  EXPECT_EQ(x[0], 3.0F);
  EXPECT_TRUE(all[1].done());
  EXPECT_FALSE(all[3].done());
  EXPECT_EQ(queue->counters().host_waits, 1U);
  EXPECT_TRUE(queue->release_next());
  EXPECT_FALSE(queue->release_next());
  EXPECT_EQ(queue->live(), LiveCounts{});
}

TEST(CpuQueue, HeldBuffersAreCancelledWithTheQueue) {
  auto queue = open({.inline_execution = true, .hold = true});
  const Completion pending = queue->submit(begin(*queue));
  queue.reset();
  EXPECT_TRUE(pending.done());
  EXPECT_EQ(pending.wait().error().code, ErrorCode::cancelled);
}

TEST(CpuQueue, RecordingsAndCompletionsMayOutliveTheQueue) {
  auto queue = open({.threads = 2});
  const Completion done = queue->submit(begin(*queue));
  ASSERT_TRUE(done.wait().ok());
  auto recording = std::make_unique<CommandBuffer>(begin(*queue));
  queue.reset();
  EXPECT_TRUE((*recording)->fill({}, 0, 0, std::byte{0}).ok());
  recording.reset();
  const Completion copy = done;
  EXPECT_TRUE(copy.wait().ok());
}

TEST(CpuQueue, TimingIsStampedInOrderAndOnlyWhenAsked) {
  auto queue = open({.threads = 2});
  std::vector<float> x(64, 0.0F);
  for (const bool timing : {true, false}) {
    CommandBuffer buffer = begin(*queue, {.timing = timing});
    for (std::int16_t layer = 0; layer < 5; ++layer) {
      const AffineArgs args{x.data(), x.data(), 64, 1, 1};
      Launch launch = launch_of(kAffine, args, {.op = "add", .phase_class = "dense", .layer = layer});
      launch.cost = {.bytes_read = 256, .bytes_written = 256, .flops = 128};
      ASSERT_TRUE(buffer->launch(launch).ok());
    }
    const Completion done = queue->submit(std::move(buffer));
    ASSERT_TRUE(done.wait().ok());
    const auto records = done.records();
    ASSERT_EQ(records.size(), timing ? 5U : 0U);
    std::uint64_t last = 0;
    for (std::size_t i = 0; i < records.size(); ++i) {
      EXPECT_EQ(records[i].kernel, &kAffine);
      EXPECT_EQ(records[i].tag.layer, static_cast<std::int16_t>(i));
      EXPECT_EQ(records[i].cost.flops, 128U);
      EXPECT_GT(records[i].t0_ns, 0U);
      EXPECT_GE(records[i].t0_ns, last);
      EXPECT_GE(records[i].t1_ns, records[i].t0_ns);
      last = records[i].t1_ns;
    }
  }
  EXPECT_EQ(queue->counters().launches, 10U);
  EXPECT_EQ(queue->counters().declared.bytes_read, 2560U);
}

TEST(CpuQueue, ManyThreadsRecordSubmitAndWait) {
  auto queue = open({.threads = 2});
  std::vector<std::vector<float>> x(4, std::vector<float>(64, 0.0F));
  {
    std::vector<std::jthread> hosts;
    for (auto& mine : x) {
      hosts.emplace_back([&] {
        Completion last;
        for (int i = 0; i < 300; ++i) {
          CommandBuffer buffer = begin(*queue, {.after = last});
          EXPECT_TRUE(buffer->launch(launch_of(kAffine, AffineArgs{mine.data(), mine.data(), 64, 1, 1})).ok());
          last = queue->submit(std::move(buffer));
          if (i % 7 == 0) {
            EXPECT_TRUE(last.wait().ok());
          }
        }
        EXPECT_TRUE(last.wait().ok());
      });
    }
  }
  for (const auto& one : x) EXPECT_EQ(one[63], 300.0F);
  EXPECT_EQ(queue->live(), LiveCounts{});
}

}  // namespace
}  // namespace plumb::device
