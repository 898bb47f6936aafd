// Small launches, which the first worker does alone and without a barrier between them: nobody else may notice.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <vector>

#include "device/cpu/test_kernels.h"

namespace plumb::device {
namespace {

using namespace testing;

constexpr Cost kSmall{.bytes_read = 256, .bytes_written = 256, .flops = 128};
constexpr Cost kLarge{.bytes_read = std::uint64_t{1} << 20, .bytes_written = 0, .flops = 0};
constexpr Cost kBusy{.bytes_read = 256, .bytes_written = 256, .flops = std::uint64_t{1} << 20};

template <class Args>
Launch costing(const Cost& cost, const Kernel& kernel, const Args& args, LaunchTag tag = {.op = "test"}) {
  Launch launch = launch_of(kernel, args, tag);
  launch.cost = cost;
  return launch;
}

// Who ran it: calls[w.index()] is counted, and how many workers each was told there are.
struct WhoArgs {
  std::atomic<int>* calls;
  std::atomic<int>* count;
};
void who(const WhoArgs& a, Worker& w) {
  a.calls[w.index()].fetch_add(1);
  a.count->store(w.count());
}
const Kernel kWho = make_kernel<WhoArgs, who>("who");

struct EachOnceArgs {
  std::atomic<int>* hits;
  std::int64_t n;
  bool by_runs;
};
void each_once(const EachOnceArgs& a, Worker& w) {
  if (a.by_runs) {
    for (std::int64_t i = w.take(a.n); i != TaskRuns::kNone; i = w.take(a.n)) a.hits[i].fetch_add(1);
  } else {
    for (std::int64_t i = w.claim(); i < a.n; i = w.claim()) a.hits[i].fetch_add(1);
  }
}
const Kernel kEachOnce = make_kernel<EachOnceArgs, each_once>("each_once");

class SoloLaunches : public ::testing::TestWithParam<int> {
 protected:
  std::unique_ptr<CpuQueue> queue_ = open({.threads = GetParam()});
};
INSTANTIATE_TEST_SUITE_P(Threads, SoloLaunches, ::testing::Values(1, 2, 5), ::testing::PrintToStringParamName());

TEST_P(SoloLaunches, AreThoseThatDeclareLittle) {
  struct {
    const char* name;
    Cost cost;
    bool solo;
  } const cases[] = {{"small", kSmall, true}, {"large", kLarge, false}, {"busy", kBusy, false}, {"declares nothing", {}, false}};
  for (const auto& [name, cost, solo] : cases) {
    std::array<std::atomic<int>, 5> calls{};
    std::atomic<int> count{0};
    auto buffer = begin(*queue_);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(buffer->launch(costing(cost, kWho, WhoArgs{calls.data(), &count})).ok());
    ASSERT_TRUE(queue_->submit(std::move(buffer)).wait().ok());
    EXPECT_EQ(calls[0].load(), 3) << name;
    for (int i = 1; i < GetParam(); ++i) EXPECT_EQ(calls[static_cast<std::size_t>(i)].load(), solo ? 0 : 3) << name;
    EXPECT_EQ(count.load(), solo ? 1 : GetParam()) << name;
  }
}

// x = 1.5 x + 1 and x = 0.5 x - 2 in turns, small and shared launches and uploads mixed: no two of them commute.
TEST_P(SoloLaunches, RunInOrderAmongAllOthers) {
  constexpr std::int64_t kN = 500;
  auto bank = reserve(*queue_, plan_of({{"x", kN * 4}, {"y", kN * 4}}));
  auto* x = bank->buffer(0).as<float>();
  auto* y = bank->buffer(1).as<float>();
  std::fill(x, x + kN, 0.0F);
  float expected = 0;
  float seed = 0;
  for (int round = 0; round < 20; ++round) {
    auto buffer = begin(*queue_);
    for (int i = 0; i < 40; ++i) {
      const bool odd = (i + round) % 2 != 0;
      const float factor = odd ? 0.5F : 1.5F;
      const float addend = odd ? -2.0F : 1.0F;
      const Cost cost = i % 7 < 4 ? kSmall : Cost{};
      ASSERT_TRUE(buffer->launch(costing(cost, kAffine, AffineArgs{y, x, kN, factor, addend})).ok());
      ASSERT_TRUE(buffer->launch(costing(i % 5 == 0 ? Cost{} : kSmall, kAffine, AffineArgs{x, y, kN, 1, 0})).ok());
      expected = expected * factor + addend;
      if (i % 11 == 10) {
        seed += 1;
        const std::vector<float> fresh(kN, seed);
        ASSERT_TRUE(buffer->upload(bank->buffer(0), 0, std::as_bytes(std::span(fresh))).ok());
        expected = seed;
      }
    }
    ASSERT_TRUE(queue_->submit(std::move(buffer)).wait().ok());
    for (std::int64_t i = 0; i < kN; ++i) ASSERT_EQ(x[i], expected) << "round " << round << " at " << i;
  }
}

TEST_P(SoloLaunches, HandOutTheirTasksAnew) {
  std::vector<std::atomic<int>> hits(300);
  auto buffer = begin(*queue_);
  for (int i = 0; i < 4; ++i) {
    for (const bool by_runs : {false, false, true, true}) {  // two alike in a row, or the second would find nothing taken
      ASSERT_TRUE(buffer->launch(costing(kSmall, kEachOnce, EachOnceArgs{hits.data(), 300, by_runs})).ok());
    }
    ASSERT_TRUE(buffer->launch(costing({}, kEachOnce, EachOnceArgs{hits.data(), 300, i % 2 == 0})).ok());
  }
  ASSERT_TRUE(queue_->submit(std::move(buffer)).wait().ok());
  for (const auto& hit : hits) ASSERT_EQ(hit.load(), 20);
}

// The sampler refuses a row by it.
TEST_P(SoloLaunches, SeeWhatTheOneBeforeCounted) {
  std::array<float, 4> in{};
  std::array<float, 4> out{};
  const std::array<std::int32_t, 4> index{0, 9, 1, -1};
  std::array<std::int32_t, 5> before{-1, -1, -1, -1, -1};
  std::array<std::int32_t, 5> after{-1, -1, -1, -1, -1};
  auto buffer = begin(*queue_);
  ASSERT_TRUE(buffer->launch(costing(kSmall, kSeen, SeenArgs{before.data()})).ok());
  ASSERT_TRUE(buffer->launch(costing(kSmall, kPick, PickArgs{out.data(), in.data(), index.data(), 4, 4})).ok());
  ASSERT_TRUE(buffer->launch(costing(kSmall, kSeen, SeenArgs{after.data()})).ok());
  const Completion done = queue_->submit(std::move(buffer));
  EXPECT_FALSE(done.wait().ok());
  EXPECT_EQ(done.fault().count, 2U);
  EXPECT_EQ(done.fault().launch, 1);
  EXPECT_EQ(before[0], 0);
  EXPECT_EQ(after[0], 2);
}

TEST_P(SoloLaunches, StopAtTheOneThatFails) {
  std::vector<float> x(16, 0.0F);
  queue_->faults().arm(FaultPoint::execute, 3);
  auto buffer = begin(*queue_);
  for (std::int16_t layer = 0; layer < 6; ++layer) {
    const AffineArgs args{x.data(), x.data(), 16, 1, 1};
    ASSERT_TRUE(buffer->launch(costing(kSmall, kAffine, args, {.op = "add", .layer = layer})).ok());
  }
  const Status status = queue_->submit(std::move(buffer)).wait();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().field, "launch 2 add layer 2 kernel f32_affine");
  for (const float value : x) EXPECT_EQ(value, 2.0F);
}

}  // namespace
}  // namespace plumb::device
