// Every point where a device can fail: the exact error, what ran and what did not, and how the queue behaves afterwards.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <thread>
#include <vector>

#include "device/cpu/test_kernels.h"

namespace plumb::device {
namespace {

using namespace testing;

class CpuFaults : public ::testing::TestWithParam<int> {  // threads; 0: inline
 protected:
  void open_queue(CpuQueueOptions options = {}) {
    options.threads = GetParam();
    options.inline_execution = GetParam() == 0;
    queue_ = open(options);
    bank_ = reserve(*queue_, plan_of({{"x", 16 * 4}, {"index", 16 * 4}}));
    std::fill(x(), x() + 16, 0.0F);
  }
  float* x() const { return bank_->buffer(0).as<float>(); }

  // A buffer of `steps` launches that each add one to x.
  CommandBuffer record_add(int steps, const BeginOptions& options = {}, bool with_operands = false) {
    CommandBuffer buffer = begin(*queue_, options);
    for (int i = 0; i < steps; ++i) {
      const AffineArgs args{x(), x(), 16, 1, 1};
      const Operand out{.name = "out", .address = x(), .bytes = 64, .f32 = true, .written = true};
      Launch launch = launch_of(kAffine, args, {.op = "add", .layer = static_cast<std::int16_t>(i)});
      if (with_operands) launch.operands = {&out, 1};
      EXPECT_TRUE(buffer->launch(launch).ok());
    }
    return buffer;
  }
  Completion add(int steps, const BeginOptions& options = {}, bool with_operands = false) {
    return queue_->submit(record_add(steps, options, with_operands));
  }
  void expect_x(float value) const {
    for (int i = 0; i < 16; ++i) EXPECT_EQ(x()[i], value) << i;
  }
  void expect_healthy() {
    const float before = x()[0];
    EXPECT_TRUE(add(2).wait().ok());
    expect_x(before + 2);
    EXPECT_EQ(queue_->live().in_flight, 0U);
    EXPECT_EQ(queue_->live().encoders, 0U);
  }
  // On a lost device nothing starts any more, and all say so.
  void expect_lost() {
    const auto buffer = queue_->begin({});
    ASSERT_FALSE(buffer.ok());
    EXPECT_EQ(buffer.error().code, ErrorCode::device_lost);
    EXPECT_EQ(queue_->reserve(plan_of({{"a", 1}})).error().code, ErrorCode::device_lost);
    // A wait that gave up does not wait for the workers, which let go of the buffers in their own time.
    while (queue_->live().in_flight != 0) std::this_thread::yield();
    EXPECT_EQ(queue_->live().encoders, 0U);
  }

  std::unique_ptr<CpuQueue> queue_;
  std::unique_ptr<Bank> bank_;
};
INSTANTIATE_TEST_SUITE_P(Threads, CpuFaults, ::testing::Values(0, 1, 2), [](const auto& p) {
  return p.param == 0 ? std::string("inline") : std::to_string(p.param) + "_threads";
});

TEST_P(CpuFaults, Reserve) {
  open_queue();
  const LiveCounts before = queue_->live();
  queue_->faults().arm(FaultPoint::reserve, 2);
  EXPECT_TRUE(queue_->reserve(plan_of({{"a", 64}})).ok());
  const auto refused = queue_->reserve(plan_of({{"a", 64}}));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(refused.error().subject, "bank test");
  EXPECT_TRUE(queue_->reserve(plan_of({{"a", 64}})).ok());
  EXPECT_EQ(queue_->live(), before);
  expect_healthy();
}

TEST_P(CpuFaults, Begin) {
  open_queue();
  queue_->faults().arm(FaultPoint::begin, 1);
  const auto refused = queue_->begin({.label = "prefill"});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(refused.error().value, "prefill");
  EXPECT_EQ(queue_->live().encoders, 0U);
  expect_healthy();
}

TEST_P(CpuFaults, Submit) {
  open_queue();
  queue_->faults().arm(FaultPoint::submit, 2);
  EXPECT_TRUE(add(1).wait().ok());
  const Completion refused = add(3);
  EXPECT_EQ(refused.wait().error().code, ErrorCode::device_fault);
  EXPECT_EQ(refused.wait().error().field, "submit");
  EXPECT_EQ(refused.fault().count, 0U);
  expect_x(1);
  expect_healthy();
}

TEST_P(CpuFaults, ExecuteStopsAtThatLaunch) {
  open_queue();
  queue_->faults().arm(FaultPoint::execute, 2 + 3);  // the third launch of the second buffer
  EXPECT_TRUE(add(2).wait().ok());
  const Completion failed = add(5, {.label = "decode"});
  const Status status = failed.wait();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::device_fault);
  EXPECT_EQ(status.error().subject, "'decode'");
  EXPECT_EQ(status.error().field, "launch 2 add layer 2 kernel f32_affine");
  EXPECT_TRUE(failed.done());
  EXPECT_EQ(failed.wait().error().to_string(), status.error().to_string()) << "the same answer each time";
  expect_x(4);
  expect_healthy();
}

TEST_P(CpuFaults, DeviceLostIsSticky) {
  open_queue();
  CommandBuffer recorded = begin(*queue_);
  const AffineArgs args{x(), x(), 16, 1, 1};
  ASSERT_TRUE(recorded->launch(launch_of(kAffine, args)).ok());
  queue_->faults().arm(FaultPoint::device_lost, 2);
  CommandBuffer next = record_add(1);  // before the loss: a lost device begins no buffer
  const Completion failed = add(3);
  const Completion behind = queue_->submit(std::move(next));
  EXPECT_EQ(failed.wait().error().code, ErrorCode::device_lost);
  EXPECT_EQ(failed.wait().error().field, "launch 1 add layer 1 kernel f32_affine");
  EXPECT_EQ(behind.wait().error().code, ErrorCode::device_lost);
  EXPECT_EQ(queue_->submit(std::move(recorded)).wait().error().code, ErrorCode::device_lost);
  expect_x(1);
  expect_lost();
}

TEST_P(CpuFaults, InjectedBadIndex) {
  open_queue();
  queue_->faults().arm(FaultPoint::bad_index, 2);
  const Completion failed = add(3);
  EXPECT_EQ(failed.wait().error().code, ErrorCode::device_fault);
  EXPECT_EQ(failed.wait().error().field, "launch 1 add layer 1 kernel f32_affine");
  EXPECT_EQ(failed.fault().count, 1U);
  EXPECT_EQ(failed.fault().launch, 1);
  EXPECT_EQ(failed.fault().kind, FaultKind::bad_index);
  expect_healthy();
}

TEST_P(CpuFaults, RealBadIndexIsClampedCountedAndTold) {
  open_queue();
  auto* index = bank_->buffer(1).as<std::int32_t>();
  for (int i = 0; i < 16; ++i) {
    index[i] = i;
    x()[i] = static_cast<float>(100 + i);
  }
  index[3] = 16;
  index[9] = -5;
  index[15] = 1 << 30;
  std::vector<float> out(16);
  std::vector<std::int32_t> seen(8, -1);
  CommandBuffer buffer = begin(*queue_);
  const PickArgs pick_args{out.data(), x(), index, 16, 16};
  ASSERT_TRUE(buffer->launch(launch_of(kSeen, SeenArgs{seen.data()})).ok());
  ASSERT_TRUE(buffer->launch(launch_of(kPick, pick_args, {.op = "embed"})).ok());
  ASSERT_TRUE(buffer->launch(launch_of(kPick, pick_args, {.op = "gather", .layer = 4})).ok());
  ASSERT_TRUE(buffer->launch(launch_of(kSeen, SeenArgs{seen.data() + 4})).ok());
  const Completion failed = queue_->submit(std::move(buffer));
  const Status status = failed.wait();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::device_fault);
  EXPECT_EQ(status.error().field, "launch 1 embed kernel f32_pick");
  EXPECT_EQ(status.error().value, "-5");
  EXPECT_EQ(status.error().message, "bad_index on the device: -5 is outside of [0, 16), 6 in all");
  EXPECT_EQ(failed.fault().count, 6U);
  EXPECT_EQ(failed.fault().launch, 1);
  EXPECT_EQ(failed.fault().value, -5) << "the smallest, so that the report does not depend on the threads";
  EXPECT_EQ(failed.fault().limit, 16);
  EXPECT_EQ(out[9], 100.0F) << "clamped to row 0";
  EXPECT_EQ(out[8], 108.0F);
  for (int w = 0; w < queue_->info().threads; ++w) {
    EXPECT_EQ(seen[static_cast<std::size_t>(w)], 0);
    EXPECT_EQ(seen[static_cast<std::size_t>(4 + w)], 6) << "the sampler's view, the same on every worker";
  }
}

TEST_P(CpuFaults, NonFiniteIsCountedWithoutOperands) {
  open_queue();
  queue_->faults().arm(FaultPoint::non_finite, 1);
  const Completion failed = add(2);
  EXPECT_EQ(failed.wait().error().code, ErrorCode::device_fault);
  EXPECT_EQ(failed.fault().kind, FaultKind::non_finite);
  expect_healthy();
}

TEST_P(CpuFaults, NonFiniteLandsInTheOutput) {
  open_queue();
  queue_->faults().arm(FaultPoint::non_finite, 2);
  {
    const CommandBuffer buffer = begin(*queue_);
    EXPECT_TRUE(buffer->wants_operands());
  }
  EXPECT_TRUE(add(3, {}, true).wait().ok()) << "a NaN is a value until somebody looks";
  EXPECT_TRUE(std::isnan(x()[0]));
  EXPECT_EQ(x()[1], 3.0F);
  const CommandBuffer buffer = begin(*queue_);
  EXPECT_FALSE(buffer->wants_operands());
}

TEST_P(CpuFaults, LaunchByLaunchNamesTheNonFiniteOutput) {
  open_queue();
  queue_->faults().arm(FaultPoint::non_finite, 2);
  const Status status = add(4, {.label = "diag", .one_by_one = true}, true).wait();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::device_fault);
  EXPECT_EQ(status.error().field, "launch 1 add layer 1 kernel f32_affine");
  EXPECT_EQ(status.error().message, "output out (buffer test.x) element 0 is not finite");
  EXPECT_EQ(status.error().value, "nan");
  EXPECT_EQ(x()[1], 2.0F) << "nothing ran after it";
}

TEST_P(CpuFaults, LaunchByLaunchNamesTheMemoryNobodyWrote) {
  open_queue({.checked = true});
  float* unwritten = bank_->buffer(1).as<float>();
  CommandBuffer buffer = begin(*queue_, {.one_by_one = true});
  const Operand out{.name = "out", .address = x(), .bytes = 64, .f32 = true, .written = true};
  // Poison where nothing was written yet is no fault, poison that arithmetic has touched is.
  const Operand in{.name = "cache", .address = unwritten, .bytes = 64, .f32 = true, .written = true};
  const AffineArgs fine{x(), x(), 16, 1, 1};
  Launch launch = launch_of(kAffine, fine, {.op = "fine"});
  const Operand both[] = {out, in};
  launch.operands = both;
  ASSERT_TRUE(buffer->launch(launch).ok());
  const AffineArgs wrong{x(), unwritten, 16, 1, 1};
  launch = launch_of(kAffine, wrong, {.op = "wrong", .layer = 2});
  launch.operands = both;
  ASSERT_TRUE(buffer->launch(launch).ok());
  const Status status = queue_->submit(std::move(buffer)).wait();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().field, "launch 1 wrong layer 2 kernel f32_affine");
  EXPECT_EQ(status.error().message,
            "output out (buffer test.x) element 0 is not finite, read from memory of test.index that nobody wrote");
}

TEST_P(CpuFaults, HangEndsAtTheDeadlineAndTheDeviceIsLost) {
  open_queue({.deadline_ms = 20});
  queue_->faults().arm(FaultPoint::hang, 1);
  CommandBuffer next = record_add(1);  // before the deadline, however slow this thread is
  const Completion hung = add(1, {.label = "step"});
  const Completion behind = queue_->submit(std::move(next));
  const Status status = hung.wait();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::deadline_exceeded);
  EXPECT_EQ(status.error().subject, "'step'");
  EXPECT_NE(status.error().message.find("20 ms"), std::string::npos);
  EXPECT_TRUE(hung.done());
  EXPECT_EQ(behind.wait().error().code, ErrorCode::device_lost);
  EXPECT_TRUE(hung.records().empty());
  expect_x(0);
  expect_lost();
}

TEST_P(CpuFaults, HangWithoutDeadlineEndsWithTheQueue) {
  if (GetParam() == 0) {
    // Nobody else could end it, so an inline queue answers at once.
    open_queue();
    queue_->faults().arm(FaultPoint::hang, 1);
    EXPECT_EQ(add(1).wait().error().code, ErrorCode::deadline_exceeded);
    expect_lost();
    return;
  }
  open_queue();
  queue_->faults().arm(FaultPoint::hang, 1);
  const Completion hung = add(1);
  const Completion behind = add(1);
  EXPECT_FALSE(hung.done());
  EXPECT_FALSE(behind.done());
  EXPECT_EQ(queue_->live().in_flight, 2U);
  std::jthread waiter([&] { EXPECT_EQ(behind.wait().error().code, ErrorCode::cancelled); });
  bank_.reset();
  queue_.reset();
  EXPECT_EQ(hung.wait().error().code, ErrorCode::cancelled);
  EXPECT_EQ(behind.wait().error().code, ErrorCode::cancelled);
}

TEST_P(CpuFaults, ChainedSuccessorsOfAFailureDoNotRun) {
  open_queue();
  queue_->faults().arm(FaultPoint::bad_index, 1);
  const Completion first = add(1, {.label = "first"});
  const Completion second = add(1, {.label = "second", .after = first});
  const Completion third = add(1, {.label = "third", .after = second});
  const Completion unrelated = add(1);
  const Completion late = [&] {
    EXPECT_TRUE(unrelated.wait().ok());
    return add(1, {.after = first});
  }();
  EXPECT_EQ(first.wait().error().code, ErrorCode::device_fault);
  for (const Completion* skipped : {&second, &third, &late}) {
    const Status status = skipped->wait();
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::device_fault);
    EXPECT_EQ(status.error().subject, "'first'") << "the first fault, not the last";
    EXPECT_EQ(status.error().field, first.wait().error().field);
    EXPECT_EQ(status.error().message, "not run, it follows a failed buffer: " + first.wait().error().message);
    EXPECT_EQ(skipped->fault().count, 1U);
    EXPECT_EQ(skipped->fault().launch, 0);
  }
  expect_x(2);  // the first, whose clamped results nobody may read, and the unrelated one
  const Completion fine = add(1, {.after = unrelated});
  EXPECT_TRUE(fine.wait().ok());
  expect_healthy();
}

TEST_P(CpuFaults, LongChainOnAHealthyQueueKeepsNothing) {
  open_queue();
  Completion last;
  for (int i = 0; i < 2000; ++i) {
    last = add(1, {.after = last});
    if (i % 3 == 0) {
      ASSERT_TRUE(last.wait().ok());
    }
  }
  EXPECT_TRUE(last.wait().ok());
  expect_x(2000);
  expect_healthy();
}

TEST_P(CpuFaults, AfterAnotherQueueIsRefused) {
  open_queue();
  auto other = open({.threads = 1});
  const Completion foreign = other->submit(begin(*other));
  const auto refused = queue_->begin({.after = foreign});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(queue_->live().encoders, 0U);
}

// What a kernel that really runs too long may still write to must not go away under it.
struct GateArgs {
  std::atomic<int>* gate = nullptr;  // 0: not reached, 1: reached, 2: open
  float* out = nullptr;
};
void gate(const GateArgs& a, Worker& w) {
  if (w.index() != 0) return;
  int closed = 0;
  a.gate->compare_exchange_strong(closed, 1);
  a.gate->notify_all();
  a.gate->wait(1);
  a.out[0] = 5;
}
const Kernel kGate = make_kernel<GateArgs, gate>("gate");

TEST(CpuDeadline, SlowKernelLosesTheDeviceAndItsMemoryStays) {
  for (const int threads : {1, 2}) {
    auto queue = open({.threads = threads, .deadline_ms = 10});
    auto bank = reserve(*queue, plan_of({{"x", 4096}}));
    std::atomic<int> state{0};
    CommandBuffer buffer = begin(*queue, {.timing = true});
    const GateArgs args{&state, bank->buffer(0).as<float>()};
    ASSERT_TRUE(buffer->launch(launch_of(kGate, args)).ok());
    ASSERT_TRUE(buffer->launch(launch_of(kGate, args)).ok());
    CommandBuffer next = begin(*queue);
    ASSERT_TRUE(next->launch(launch_of(kNothing, SeenArgs{})).ok());
    const Completion slow = queue->submit(std::move(buffer));
    const Completion behind = queue->submit(std::move(next));
    EXPECT_EQ(slow.wait().error().code, ErrorCode::deadline_exceeded);
    EXPECT_EQ(behind.wait().error().code, ErrorCode::device_lost) << "every worker is in the kernel, and the wait itself must know";
    EXPECT_TRUE(slow.records().empty());
    EXPECT_EQ(queue->begin({}).error().code, ErrorCode::device_lost);
    bank.reset();
    state.store(2);
    state.notify_all();
    queue.reset();
    EXPECT_EQ(slow.wait().error().code, ErrorCode::deadline_exceeded) << "the first answer stands";
  }
}

TEST(CpuShutdown, WithWorkInFlight) {
  for (int round = 0; round < 20; ++round) {
    auto queue = open({.threads = 2});
    auto bank = reserve(*queue, plan_of({{"x", 4096}}));
    std::array<std::atomic<int>, 4> gates{};
    std::vector<Completion> all;
    for (std::atomic<int>& one : gates) {
      CommandBuffer buffer = begin(*queue);
      ASSERT_TRUE(buffer->launch(launch_of(kGate, GateArgs{&one, bank->buffer(0).as<float>()})).ok());
      ASSERT_TRUE(buffer->launch(launch_of(kNothing, SeenArgs{})).ok());
      all.push_back(queue->submit(std::move(buffer)));
    }
    gates[0].wait(0);  // the first launch runs
    std::jthread opener([&] {
      for (std::atomic<int>& one : gates) {
        one.store(2);
        one.notify_all();
      }
    });
    bank.reset();
    queue.reset();
    for (const Completion& one : all) {
      ASSERT_TRUE(one.done());
      const Status status = one.wait();
      EXPECT_TRUE(status.ok() || status.error().code == ErrorCode::cancelled);
    }
  }
}

TEST(FaultInjector, CountsDown) {
  FaultInjector faults;
  EXPECT_FALSE(faults.fires(FaultPoint::begin));
  faults.arm(FaultPoint::begin, 2);
  EXPECT_TRUE(faults.armed(FaultPoint::begin));
  EXPECT_FALSE(faults.fires(FaultPoint::submit));
  EXPECT_FALSE(faults.fires(FaultPoint::begin));
  EXPECT_TRUE(faults.fires(FaultPoint::begin));
  EXPECT_FALSE(faults.fires(FaultPoint::begin)) << "once";
  EXPECT_FALSE(faults.armed(FaultPoint::begin));
  faults.arm(FaultPoint::execute, 10);
  EXPECT_EQ(faults.reach(FaultPoint::execute, 4), std::nullopt);
  EXPECT_EQ(faults.reach(FaultPoint::execute, 6), 5U);
  faults.arm(FaultPoint::execute, 3);
  faults.arm(FaultPoint::execute, 0);
  EXPECT_EQ(faults.reach(FaultPoint::execute, 100), std::nullopt);
  for (int i = 0; i < static_cast<int>(FaultPoint::count_); ++i) {
    EXPECT_NE(to_string(static_cast<FaultPoint>(i)), "unknown");
  }
}

}  // namespace
}  // namespace plumb::device
