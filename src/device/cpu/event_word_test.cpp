#include "device/cpu/event_word.h"

#include <gtest/gtest.h>

#include <vector>

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
  EXPECT_EQ(in_vain.patience(50), 200U) << "a try is more patient";
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

}  // namespace
}  // namespace plumb::device
