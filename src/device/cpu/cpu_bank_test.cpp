// Banks of an opened queue: what is refused, what is guarded, what is told.
#include <gtest/gtest.h>

#include <cstring>

#include "device/address_sanitizer.h"
#include "device/cpu/test_kernels.h"

namespace plumb::device {
namespace {

using namespace testing;

struct PokeArgs {
  std::byte* target = nullptr;
};
void poke(const PokeArgs& a, Worker& w) {
  if (w.index() == 0) *a.target = std::byte{0};
}
const Kernel kPoke = make_kernel<PokeArgs, poke>("poke");

Status run(Queue& queue, const Launch& launch, const BeginOptions& options = {}) {
  CommandBuffer buffer = begin(queue, options);
  PLUMB_TRY(buffer->launch(launch));
  return queue.submit(std::move(buffer)).wait();
}

TEST(CpuBank, HandsOutAlignedRangesOfTheirSize) {
  for (const bool checked : {false, true}) {
    auto queue = open({.threads = 1, .checked = checked});
    auto bank = reserve(*queue, plan_of({{"a", 100}, {"none", 0}, {"b", std::uint64_t{3} << 20}}));
    EXPECT_TRUE(bank->host_visible());
    for (std::size_t i = 0; i < 3; ++i) {
      const Buffer buffer = bank->buffer(i);
      EXPECT_EQ(buffer.bytes, bank->plan().regions[i].bytes);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.address) % kBankAlignment, 0U);
      EXPECT_TRUE(buffer);
      std::memset(buffer.address, 1, buffer.bytes);
    }
    EXPECT_TRUE(bank->verify().ok());
    auto other = reserve(*queue, plan_of({{"c", 1}}));
    EXPECT_NE(other->buffer(0).id, bank->buffer(0).id);
    EXPECT_NE(bank->buffer(2).id, bank->buffer(0).id);
    EXPECT_NE(other->buffer(0).id, bank->buffer(2).id);
  }
}

TEST(CpuBank, CountsWhatIsLive) {
  auto queue = open({.threads = 1});
  const LiveCounts start = queue->live();
  EXPECT_EQ(start, LiveCounts{});
  {
    const BankPlan plan = plan_of({{"a", 1000}});
    auto one = reserve(*queue, plan);
    auto two = reserve(*queue, plan);
    EXPECT_EQ(queue->live().banks, 2U);
    EXPECT_EQ(queue->live().bank_bytes, 2 * plan.total_bytes(false));
  }
  EXPECT_EQ(queue->live(), start);
}

TEST(CpuBank, RefusesWhatDoesNotFit) {
  const BankPlan plan = plan_of({{"a", 4096}});
  const std::uint64_t each = plan.total_bytes(false);
  auto queue = open({.threads = 1, .memory_limit_bytes = 2 * each});
  auto one = reserve(*queue, plan);
  auto two = reserve(*queue, plan);
  const auto three = queue->reserve(plan);
  ASSERT_FALSE(three.ok());
  EXPECT_EQ(three.error().code, ErrorCode::out_of_memory);
  EXPECT_NE(three.error().message.find(std::to_string(2 * each) + " reserved in 2 banks = " + std::to_string(3 * each)),
            std::string::npos)
      << three.error().message;
  two.reset();
  EXPECT_TRUE(queue->reserve(plan).ok()) << "what was dropped can be had again";

  auto unlimited = open({.threads = 1});
  EXPECT_GT(unlimited->info().memory_bytes, 0U);
  const auto huge = unlimited->reserve(plan_of({{"a", unlimited->info().memory_bytes + 1}}));
  ASSERT_FALSE(huge.ok());
  EXPECT_EQ(huge.error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(unlimited->live(), LiveCounts{});
}

TEST(CpuBank, MappingRefusedBySystemIsOutOfMemory) {
  auto queue = open({.threads = 1, .memory_limit_bytes = UINT64_MAX});
  for (const std::uint64_t bytes : {UINT64_MAX / 2 + 1000000, std::uint64_t{1} << 60}) {
    const auto bank = queue->reserve(plan_of({{"a", bytes}}));
    ASSERT_FALSE(bank.ok());
    EXPECT_EQ(bank.error().code, ErrorCode::out_of_memory);
    EXPECT_EQ(bank.error().subject, "bank test");
    EXPECT_EQ(queue->live(), LiveCounts{});
  }
}

TEST(CpuBank, AllocationWhileEncodingIsRefused) {
  auto queue = open({.threads = 1});
  auto bank = reserve(*queue, plan_of({{"a", 4096}}));
  const BankPlan plan = {.name = "late", .regions = {{"x", 256}}};
  {
    const CommandBuffer recording = begin(*queue);
    EXPECT_EQ(queue->live().encoders, 1U);
    const auto late = queue->reserve(plan);
    ASSERT_FALSE(late.ok());
    EXPECT_EQ(late.error().code, ErrorCode::allocation_while_encoding);
    EXPECT_EQ(late.error().subject, "bank late");
    EXPECT_EQ(late.error().value, std::to_string(plan.total_bytes(false)));
    EXPECT_NE(late.error().message.find(std::to_string(bank->plan().total_bytes(false)) + " reserved in 1 banks"),
              std::string::npos)
        << late.error().message;
  }
  EXPECT_EQ(queue->live().encoders, 0U) << "abandoned";
  EXPECT_TRUE(queue->reserve(plan).ok());
  CommandBuffer recording = begin(*queue);
  EXPECT_FALSE(queue->reserve(plan).ok());
  EXPECT_TRUE(queue->submit(std::move(recording)).wait().ok());
  EXPECT_TRUE(queue->reserve(plan).ok());
}

TEST(CpuBank, FreshMemoryIsPoisonOfItsRegion) {
  auto queue = open({.threads = 1, .checked = true});
  EXPECT_TRUE(queue->checked());
  auto bank = reserve(*queue, plan_of({{"a", 64}, {"b", 68}}));
  for (std::size_t i = 0; i < 2; ++i) {
    const Buffer buffer = bank->buffer(i);
    for (std::size_t j = 0; j < buffer.bytes / 4; ++j) EXPECT_EQ(buffer.as<std::uint32_t>()[j], poison_word(buffer.id));
  }
  std::memset(bank->buffer(0).address, 0, 64);
  std::memset(bank->buffer(1).address, 0, 68);
  bank->poison(1);
  EXPECT_EQ(bank->buffer(0).as<std::uint32_t>()[0], 0U);
  EXPECT_EQ(bank->buffer(1).as<std::uint32_t>()[16], poison_word(bank->buffer(1).id));
  EXPECT_TRUE(bank->verify().ok());
}

// Every single byte around each buffer, up to the middle of the guard: found, and the right buffer named.
TEST(CpuBank, OneByteOutOfBoundsIsCaughtAndNamed) {
  auto queue = open({.threads = 2, .checked = true});
  auto bank = reserve(*queue, plan_of({{"first", 100}, {"middle", 256}, {"last", 1}}));
  for (std::size_t i = 0; i < 3; ++i) {
    const Buffer buffer = bank->buffer(i);
    const std::string& name = bank->plan().regions[i].name;
    for (const std::uint64_t distance : {1U, 2U, 17U, 300U}) {
      for (const bool behind : {true, false}) {
        std::byte* target = behind ? buffer.address + buffer.bytes + distance - 1 : buffer.address - distance;
        const std::byte before = *target;
        const Status status = run(*queue, launch_of(kPoke, PokeArgs{target}));
        ASSERT_FALSE(status.ok()) << name << " " << distance;
        EXPECT_EQ(status.error().code, ErrorCode::device_fault);
        EXPECT_EQ(status.error().field, name) << distance << " " << behind;
        EXPECT_EQ(status.error().subject, "bank test");
        EXPECT_NE(status.error().message.find("test." + name), std::string::npos);
        EXPECT_FALSE(bank->verify().ok());
        *target = before;
        EXPECT_TRUE(bank->verify().ok());
      }
    }
    EXPECT_TRUE(run(*queue, launch_of(kPoke, PokeArgs{buffer.address + buffer.bytes - 1})).ok());
    EXPECT_TRUE(run(*queue, launch_of(kPoke, PokeArgs{buffer.address})).ok());
  }
}

TEST(CpuBank, LaunchByLaunchNamesTheLaunchThatWroteOutside) {
  auto queue = open({.threads = 2, .checked = true});
  auto bank = reserve(*queue, plan_of({{"x", 64}}));
  CommandBuffer buffer = begin(*queue, {.label = "diag", .one_by_one = true});
  std::byte* const inside = bank->buffer(0).address;
  ASSERT_TRUE(buffer->launch(launch_of(kPoke, PokeArgs{inside}, {.op = "good", .layer = 0})).ok());
  ASSERT_TRUE(buffer->launch(launch_of(kPoke, PokeArgs{inside + 64}, {.op = "bad", .layer = 7})).ok());
  ASSERT_TRUE(buffer->launch(launch_of(kPoke, PokeArgs{inside + 3}, {.op = "after", .layer = 8})).ok());
  const Status status = queue->submit(std::move(buffer)).wait();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::device_fault);
  EXPECT_EQ(status.error().subject, "'diag'");
  EXPECT_EQ(status.error().field, "launch 1 bad layer 7 kernel poke");
  EXPECT_NE(status.error().message.find("test.x"), std::string::npos) << status.error().message;
  EXPECT_NE(inside[3], std::byte{0}) << "what comes after does not run";
}

TEST(CpuBank, DroppedInFlightKeepsItsMemoryUntilTheBufferIsDone) {
  auto queue = open({.inline_execution = true, .hold = true});
  auto bank = reserve(*queue, plan_of({{"x", 4096}}));
  CommandBuffer buffer = begin(*queue);
  ASSERT_TRUE(buffer->launch(launch_of(kPoke, PokeArgs{bank->buffer(0).address})).ok());
  const Completion done = queue->submit(std::move(buffer));
  bank.reset();
  EXPECT_EQ(queue->live().banks, 0U);
  EXPECT_TRUE(queue->release_next());
  EXPECT_TRUE(done.wait().ok());
}

#if defined(__SANITIZE_ADDRESS__)
TEST(CpuBank, TheSanitizerWatchesWhatIsBetweenBuffers) {
  auto queue = open({.threads = 1});
  auto bank = reserve(*queue, plan_of({{"a", 100}, {"b", 128}}));
  for (std::size_t i = 0; i < 2; ++i) {
    const Buffer buffer = bank->buffer(i);
    EXPECT_FALSE(__asan_address_is_poisoned(buffer.address));
    EXPECT_FALSE(__asan_address_is_poisoned(buffer.address + buffer.bytes - 1));
    EXPECT_TRUE(__asan_address_is_poisoned(buffer.address + buffer.bytes));
    EXPECT_TRUE(__asan_address_is_poisoned(buffer.address - 1));
  }
}
#endif

}  // namespace
}  // namespace plumb::device
