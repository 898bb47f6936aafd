#include "device/cpu/event_word.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/clock.h"

namespace plumb::device {
namespace {

// Until it pauses no longer.
void give_up(SpinMemory& memory, std::uint32_t first_wait) {
  for (std::uint32_t wait = first_wait; wait < first_wait + 4; ++wait) {
    ASSERT_TRUE(memory.worth_it(wait));
    memory.learn(wait, false);
  }
}

TEST(SpinMemory, GivesUpAfterAFewWaitsInARow) {
  SpinMemory memory;
  for (std::uint32_t wait = 100; wait < 140; ++wait) {  // every fourth pause helps
    EXPECT_TRUE(memory.worth_it(wait));
    memory.learn(wait, wait % 4 == 0);
  }
  SpinMemory in_vain;
  give_up(in_vain, 100);
  EXPECT_FALSE(in_vain.worth_it(104));
  EXPECT_EQ(in_vain.patience_ns(50'000), 200'000U) << "a try is more patient";
}

TEST(SpinMemory, TriesEverMoreRarely) {
  SpinMemory memory;
  give_up(memory, 0);
  int tries = 0;
  int late_tries = 0;
  for (std::uint32_t wait = 4; wait < 32768; ++wait) {
    if (!memory.worth_it(wait)) continue;
    ++tries;
    if (wait >= 16384) ++late_tries;
    memory.learn(wait, false);
  }
  EXPECT_GT(tries, 0);
  EXPECT_LE(late_tries, 64) << "four in 1,024";
}

TEST(SpinMemory, IsAtLeastTwiceAsPatientAsAWakeTakes) {
  constexpr std::uint64_t kUsual = 50'000;
  SpinMemory memory;
  EXPECT_EQ(memory.patience_ns(kUsual), kUsual) << "nothing is known yet";
  for (int i = 0; i < 64; ++i) memory.woke_after(300'000);
  EXPECT_GE(memory.patience_ns(kUsual), 2 * 250'000U);
  EXPECT_LE(memory.patience_ns(kUsual), 2 * 420'000U);
  for (int i = 0; i < 64; ++i) memory.woke_after(10'000'000);
  EXPECT_EQ(memory.patience_ns(kUsual), 2'000'000U) << "there is an end to it";
  for (int i = 0; i < 64; ++i) memory.woke_after(5'000);
  EXPECT_EQ(memory.patience_ns(kUsual), kUsual);
}

TEST(SpinMemory, ARareLateWakeIsNotTakenForTheUsualOne) {
  SpinMemory memory;
  for (int i = 0; i < 400; ++i) memory.woke_after(i % 10 == 0 ? 4'000'000 : 10'000);
  EXPECT_EQ(memory.patience_ns(50'000), 50'000U);
  for (int i = 0; i < 400; ++i) memory.woke_after(i % 10 < 5 ? 200'000 : 10'000);
  EXPECT_GT(memory.patience_ns(50'000), 200'000U) << "half of them is not rare";
}

TEST(SpinMemory, PausesBeyondTheUsualTimeForAFortiethOfTheTime) {
  SpinMemory memory;
  constexpr std::uint64_t kStart = 1'000'000'000'000;
  EXPECT_EQ(memory.extension_ns(kStart), SpinMemory::kLongNs) << "time went by before the first";
  memory.spend(SpinMemory::kLongNs);
  EXPECT_EQ(memory.extension_ns(kStart), 0U);
  EXPECT_EQ(memory.extension_ns(kStart + 4'000'000), 100'000U);
  memory.spend(60'000);
  EXPECT_EQ(memory.extension_ns(kStart + 4'000'000), 40'000U) << "what was not used is left";
  EXPECT_EQ(memory.extension_ns(kStart + 60'000'000'000), SpinMemory::kLongNs) << "it is not saved up";
  give_up(memory, 100);
  EXPECT_EQ(memory.extension_ns(kStart + 120'000'000'000), 0U) << "not where pausing does not pay";
}

// Whatever each has been through, there are waits in which all of them try; and one in which pausing helps brings all back.
TEST(SpinMemory, ThoseWhoWaitTogetherTryTogether) {
  std::vector<SpinMemory> memories(16);
  for (std::uint32_t i = 0; i < memories.size(); ++i) {
    give_up(memories[i], 7 * i);
    // Each gave up at another time, and has failed more often or less often since.
    for (std::uint32_t wait = 7 * i + 4; wait < 7 * i + 4 + 400 * i; ++wait) {
      if (memories[i].worth_it(wait)) memories[i].learn(wait, false);
    }
  }
  std::uint32_t wait = 7000;
  const auto all_try = [&] {
    for (const SpinMemory& memory : memories) {
      if (!memory.worth_it(wait)) return false;
    }
    return true;
  };
  while (!all_try() && wait < 7000 + 2048) {  // a pause of some alone is in vain: the others sleep
    for (SpinMemory& memory : memories) {
      if (memory.worth_it(wait)) memory.learn(wait, false);
    }
    ++wait;
  }
  ASSERT_TRUE(all_try()) << "never in 2,048 waits";
  for (int i = 0; i < 2; ++i, ++wait) {
    ASSERT_TRUE(all_try()) << "a few in a row";
    for (SpinMemory& memory : memories) memory.learn(wait, true);
  }
  wait += 17;
  EXPECT_TRUE(all_try()) << "back to pausing";
}

TEST(EventWord, ALongerPauseIsPaidFor) {
  EventWord word;
  SpinMemory memory;
  const std::uint64_t start = monotonic_ns();
  std::jthread sleeper([&] { word.wait_while(0, 1, memory); });
  while (!word.has_sleepers()) std::this_thread::yield();  // the pause was in vain, to its end
  word.advance();
  sleeper.join();
  const std::uint64_t now = monotonic_ns();
  EXPECT_LE(memory.extension_ns(now), (now - start) / 40) << "what it has was credited since";
}

TEST(EventWord, NobodySleepsBeforeTwiceTheTimeOfAWake) {
  EventWord word;
  SpinMemory memory;
  for (int i = 0; i < 64; ++i) memory.woke_after(300'000);
  const std::uint64_t patience = memory.patience_ns(1'000);
  const std::uint64_t start = monotonic_ns();
  std::jthread sleeper([&] { word.wait_while(0, 1, memory); });
  while (!word.has_sleepers()) std::this_thread::yield();
  const std::uint64_t slept_after = monotonic_ns() - start;
  word.advance();
  EXPECT_GE(slept_after, patience + SpinMemory::kLongNs) << "and the longer pause, which it could pay for";
}

// Whoever changes the value says when, if somebody sleeps; the sleeper takes the rest of the time for its wake.
TEST(EventWord, ASleeperLearnsHowLongItTookToWake) {
  EventWord word;
  constexpr std::uint32_t kWaits = 200;
  std::atomic<std::uint32_t> waits{0};
  std::uint32_t measured = 0;
  std::jthread sleeper([&] {
    SpinMemory memory;
    while (waits.load() < kWaits) {
      for (int i = 0; i < 64; ++i) memory.woke_after(10'000'000);  // as if wakes took very long
      const std::uint64_t before = memory.patience_ns(0);
      word.wait_while(waits.load(), 0, memory);
      if (memory.patience_ns(0) < before) ++measured;
      waits.fetch_add(1);
    }
  });
  for (std::uint32_t i = 0; i < kWaits; ++i) {
    while (waits.load() != i || !word.has_sleepers()) std::this_thread::yield();
    word.advance();
  }
  sleeper.join();
  EXPECT_GT(measured, 0U) << "no wake took less than a millisecond, or none was measured";
}

}  // namespace
}  // namespace plumb::device
