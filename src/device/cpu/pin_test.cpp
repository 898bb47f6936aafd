#include "device/cpu/pin.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <set>
#include <thread>

#include "device/cpu/barrier_cost.h"
#include "device/cpu/test_kernels.h"
#include "device/cpu/topology.h"

namespace plumb::device {
namespace {

using namespace testing;

TEST(Pin, AThreadSeesItsCoreAlone) {
  const CpuTopology topology = cpu_topology();
  const auto threads = static_cast<int>(topology.cores.size());
  const std::vector<int> cores = worker_cores(topology, threads);
  for (std::size_t i = 0; i < cores.size(); ++i) {
    Status status;
    std::vector<int> seen;
    std::thread([&] {
      status = pin_thread(pthread_self(), static_cast<int>(i), threads);
      seen = allowed_cpus();
    }).join();
    ASSERT_TRUE(status.ok()) << status.error().to_string();
    EXPECT_EQ(seen, std::vector{cores[i]});
  }
}

TEST(Pin, NeedsACoreForEachWorker) {
  const int cores = static_cast<int>(cpu_topology().cores.size());
  const auto refused = open_cpu_queue({.threads = cores + 1, .pin = true});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(refused.error().field, "pin");
}

struct WhereArgs {
  std::int32_t* cpus;  // [workers]
};
void where(const WhereArgs& a, Worker& w) { a.cpus[w.index()] = static_cast<std::int32_t>(allowed_cpus().size()) == 1 ? sched_getcpu() : -1; }

TEST(Pin, WorkersOfAQueueStayOnTheirCores) {
  const CpuTopology topology = cpu_topology();
  const int threads = static_cast<int>(topology.cores.size());
  auto queue = open({.threads = threads, .pin = true});
  const Kernel where_kernel = make_kernel<WhereArgs, where>("f32_where");
  std::vector<std::int32_t> cpus(static_cast<std::size_t>(threads), -2);
  CommandBuffer buffer = begin(*queue, {});
  ASSERT_TRUE(buffer->launch(launch_of(where_kernel, WhereArgs{cpus.data()})).ok());
  ASSERT_TRUE(queue->submit(std::move(buffer)).wait().ok());
  EXPECT_EQ(std::vector<int>(cpus.begin(), cpus.end()), worker_cores(topology, threads));
}

TEST(BarrierCost, OfAnyNumberOfThreads) {
  for (const int threads : {1, 2, 3}) {
    const auto cost = measure_barrier(threads, false);
    ASSERT_TRUE(cost.ok());
    EXPECT_GT(*cost, 0);
  }
  EXPECT_FALSE(measure_barrier(static_cast<int>(cpu_topology().cores.size()) + 1, true).ok());
}

}  // namespace
}  // namespace plumb::device
