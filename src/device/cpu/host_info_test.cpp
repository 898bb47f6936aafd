#include "device/cpu/host_info.h"

#include <gtest/gtest.h>
#include <sched.h>

namespace plumb::device {
namespace {

TEST(HostInfo, CpuMaxOfControlGroups) {
  EXPECT_EQ(parse_cpu_max("200000 100000\n"), 2);
  EXPECT_EQ(parse_cpu_max("250000 100000\n"), 2) << "whole cores";
  EXPECT_EQ(parse_cpu_max("50000 100000\n"), 1) << "half a core runs one thread";
  EXPECT_EQ(parse_cpu_max("max 100000\n"), std::nullopt);
  EXPECT_EQ(parse_cpu_max(""), std::nullopt);
  EXPECT_EQ(parse_cpu_max("200000"), std::nullopt);
  EXPECT_EQ(parse_cpu_max("200000 0"), std::nullopt);
  EXPECT_EQ(parse_cpu_max("18446744073709551615 1"), 1 << 20);
}

TEST(HostInfo, ControlGroupPath) {
  EXPECT_EQ(parse_cgroup_path("0::/user.slice/a.scope\n"), "/user.slice/a.scope");
  EXPECT_EQ(parse_cgroup_path("9:name=systemd:/\n4:memory:/x\n0::/\n"), "/");
  EXPECT_EQ(parse_cgroup_path("4:memory:/x"), "");
  EXPECT_EQ(parse_cgroup_path(""), "");
}

TEST(HostInfo, CoresFollowTheAffinityMask) {
  const int before = usable_cores();
  ASSERT_GE(before, 1);
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  EXPECT_LE(before, CPU_COUNT(&all));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &all)) {
      CPU_SET(cpu, &one);
      break;
    }
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(usable_cores(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof all, &all), 0);
  EXPECT_EQ(usable_cores(), before);
}

TEST(HostInfo, SaysSomething) {
  EXPECT_FALSE(cpu_name().empty());
  EXPECT_GT(usable_memory(), std::uint64_t{1} << 20);
}

}  // namespace
}  // namespace plumb::device
