#include "device/cpu/topology.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "device/cpu/host_info.h"

namespace plumb::device {
namespace {

// A machine made of text files, as the kernel shows it.
class FakeMachine {
 public:
  FakeMachine() : root_(std::filesystem::path(::testing::TempDir()) / ("machine" + std::to_string(getpid()))) {
    std::filesystem::remove_all(root_);
  }
  ~FakeMachine() { std::filesystem::remove_all(root_); }
  void put(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  void cpu(int index, const std::string& siblings, int package = 0, int capacity = 0) {
    const std::string at = "sys/devices/system/cpu/cpu" + std::to_string(index);
    put(at + "/topology/thread_siblings_list", siblings);
    put(at + "/topology/physical_package_id", std::to_string(package));
    if (capacity > 0) put(at + "/cpu_capacity", std::to_string(capacity));
  }
  void cache(int cpu, int index, int level, const std::string& type, const std::string& size, const std::string& shared) {
    const std::string at = "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/index" + std::to_string(index);
    put(at + "/level", std::to_string(level));
    put(at + "/type", type);
    put(at + "/size", size);
    put(at + "/shared_cpu_list", shared);
  }
  std::string root() const { return root_.string(); }

 private:
  std::filesystem::path root_;
};

std::vector<int> up_to(int n) {
  std::vector<int> cpus;
  for (int i = 0; i < n; ++i) cpus.push_back(i);
  return cpus;
}

TEST(Topology, ListsOfProcessors) {
  EXPECT_EQ(parse_cpu_list("0-2,8"), (std::vector{0, 1, 2, 8}));
  EXPECT_EQ(parse_cpu_list("5"), std::vector{5});
  EXPECT_EQ(parse_cpu_list("3,1,1-2\n"), (std::vector{1, 2, 3}));
  EXPECT_EQ(parse_cpu_list(""), std::vector<int>{});
  EXPECT_EQ(parse_cpu_list("x"), std::vector<int>{});
  EXPECT_EQ(parse_cpu_list("1,x,2"), std::vector{1});
  EXPECT_EQ(parse_cpu_list("4-2"), std::vector<int>{});
  EXPECT_EQ(parse_cpu_list("65535-2000000000"), std::vector{65535});
}

TEST(Topology, ThreadsOfACoreAreOneCore) {
  FakeMachine machine;
  for (int i = 0; i < 8; ++i) machine.cpu(i, std::to_string(i % 4) + "," + std::to_string(i % 4 + 4), i % 4 / 2);
  for (int i = 0; i < 8; ++i) machine.cache(i, 0, 1, "Data", "48K", std::to_string(i % 4) + "," + std::to_string(i % 4 + 4));
  for (int i = 0; i < 8; ++i) machine.cache(i, 1, 3, "Unified", "32M", i % 4 / 2 == 0 ? "0-1,4-5" : "2-3,6-7");
  const CpuTopology t = read_topology(machine.root(), up_to(8));
  EXPECT_EQ(t.cores, (std::vector{0, 1, 2, 3}));
  EXPECT_TRUE(t.smt());
  EXPECT_FALSE(t.mixed);
  EXPECT_EQ(t.packages, 2);
  EXPECT_EQ(t.caches, (std::vector<CpuCache>{{1, "Data", 48U << 10, 4}, {3, "Unified", 32U << 20, 2}}));
}

TEST(Topology, OnlyWhatTheProcessMayUseCounts) {
  FakeMachine machine;
  for (int i = 0; i < 8; ++i) machine.cpu(i, std::to_string(i / 2 * 2) + "-" + std::to_string(i / 2 * 2 + 1));
  const int mask[] = {1, 4, 5};  // the second thread of one core, both of another
  const CpuTopology t = read_topology(machine.root(), mask);
  EXPECT_EQ(t.cpus, (std::vector{1, 4, 5}));
  EXPECT_EQ(t.cores, (std::vector{1, 4}));
}

TEST(Topology, TheFasterOfUnlikeCoresComeFirst) {
  FakeMachine machine;
  for (int i = 0; i < 4; ++i) machine.cpu(i, std::to_string(i), 0, 400);
  for (int i = 4; i < 6; ++i) machine.cpu(i, std::to_string(i), 0, 1024);
  const CpuTopology t = read_topology(machine.root(), up_to(6));
  EXPECT_TRUE(t.mixed);
  EXPECT_EQ(t.cores, (std::vector{4, 5, 0, 1, 2, 3}));
}

TEST(Topology, ATurboStepDoesNotMakeCoresUnlike) {
  FakeMachine machine;
  for (int i = 0; i < 3; ++i) machine.cpu(i, std::to_string(i), 0, 1000 + 50 * i);
  const CpuTopology t = read_topology(machine.root(), up_to(3));
  EXPECT_FALSE(t.mixed);
  EXPECT_EQ(t.cores, (std::vector{0, 1, 2}));
}

TEST(Topology, WorkersSpreadOverCachesAndStayInAPackage) {
  FakeMachine machine;
  // Two packages of two caches of three cores.
  for (int i = 0; i < 12; ++i) {
    machine.cpu(i, std::to_string(i), i / 6);
    machine.cache(i, 0, 1, "Data", "32K", std::to_string(i));
    machine.cache(i, 1, 3, "Unified", "32M", std::to_string(i / 3 * 3) + "-" + std::to_string(i / 3 * 3 + 2));
  }
  const CpuTopology t = read_topology(machine.root(), up_to(12));
  EXPECT_EQ(t.places[4], (CorePlace{0, 1}));
  EXPECT_EQ(t.places[11], (CorePlace{1, 3}));
  EXPECT_EQ(worker_cores(t, 1), std::vector{0});
  EXPECT_EQ(worker_cores(t, 2), (std::vector{0, 3}));
  EXPECT_EQ(worker_cores(t, 3), (std::vector{0, 1, 3})) << "those of one cache are neighbours";
  EXPECT_EQ(worker_cores(t, 5), (std::vector{0, 1, 2, 3, 4}));
  EXPECT_EQ(worker_cores(t, 6), up_to(6));
  EXPECT_EQ(worker_cores(t, 8), (std::vector{0, 1, 2, 3, 4, 5, 6, 9}));
  EXPECT_EQ(worker_cores(t, 12), up_to(12));
  EXPECT_TRUE(worker_cores(t, 0).empty());
  const int mask[] = {1, 2, 5, 9};  // what a container was given
  EXPECT_EQ(worker_cores(read_topology(machine.root(), mask), 2), (std::vector{1, 5}));
}

TEST(Topology, WorkersTakeTheFasterCoresWhateverTheirCache) {
  FakeMachine machine;
  for (int i = 0; i < 4; ++i) machine.cpu(i, std::to_string(i), 0, i < 2 ? 1024 : 400);
  for (int i = 0; i < 4; ++i) machine.cache(i, 0, 3, "Unified", "8M", i < 2 ? "0-1" : "2-3");
  EXPECT_EQ(worker_cores(read_topology(machine.root(), up_to(4)), 2), (std::vector{0, 1}));
}

TEST(Topology, OfASystemThatSaysNothing) {
  const int mask[] = {0, 2};
  const CpuTopology t = read_topology("/nonexistent", mask);
  EXPECT_EQ(t.cores, (std::vector{0, 2}));
  EXPECT_EQ(t.packages, 1);
  EXPECT_TRUE(t.caches.empty());
  EXPECT_EQ(worker_cores(t, 2), (std::vector{0, 2}));
}

TEST(Topology, A128CoreServer) {
  FakeMachine machine;
  for (int i = 0; i < 256; ++i) machine.cpu(i, std::to_string(i % 128) + "," + std::to_string(i % 128 + 128), i % 128 / 64);
  const CpuTopology t = read_topology(machine.root(), up_to(256));
  EXPECT_EQ(t.cores.size(), 128U);
  EXPECT_EQ(t.packages, 2);
}

TEST(Topology, ThisMachine) {
  const CpuTopology t = cpu_topology();
  EXPECT_GE(t.cores.size(), 1U);
  EXPECT_LE(t.cores.size(), t.cpus.size());
  EXPECT_LE(usable_cores(), static_cast<int>(t.cores.size()));
  EXPECT_LE(usable_cores(), usable_processors());
}

TEST(Quota, IsTheTightestOfNestedGroups) {
  FakeMachine machine;
  EXPECT_EQ(cpu_quota(machine.root()), std::nullopt);
  machine.put("proc/self/cgroup", "0::/a.slice/b.scope");
  machine.put("sys/fs/cgroup/a.slice/b.scope/cpu.max", "max 100000");
  EXPECT_EQ(cpu_quota(machine.root()), std::nullopt);
  machine.put("sys/fs/cgroup/a.slice/cpu.max", "350000 100000");
  EXPECT_EQ(cpu_quota(machine.root()), 3);
  machine.put("sys/fs/cgroup/a.slice/b.scope/cpu.max", "600000 100000");
  EXPECT_EQ(cpu_quota(machine.root()), 3);
  machine.put("sys/fs/cgroup/a.slice/b.scope/cpu.max", "50000 100000");
  EXPECT_EQ(cpu_quota(machine.root()), 1) << "half a core still runs one thread";
}

TEST(Quota, OfControlGroupsV1) {
  FakeMachine machine;
  machine.put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1");
  machine.put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  EXPECT_EQ(cpu_quota(machine.root()), std::nullopt);
  machine.put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000");
  EXPECT_EQ(cpu_quota(machine.root()), 4);
  machine.put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "0");
  EXPECT_EQ(cpu_quota(machine.root()), std::nullopt);
}

}  // namespace
}  // namespace plumb::device
