#include "device/cpu/pin.h"

#include <sched.h>

#include <cstring>

#include "base/check.h"
#include "device/cpu/topology.h"

namespace plumb::device {

Status pin_thread(pthread_t thread, int index, int threads) {
  PLUMB_CHECK(index >= 0 && index < threads);
  const CpuTopology topology = cpu_topology();
  const std::size_t cores = topology.cores.size();
  if (static_cast<std::size_t>(threads) > cores) {
    return fail(ErrorCode::invalid_argument,
                "each worker needs a core of its own, and this process may use " + std::to_string(cores) + (cores == 1 ? " core" : " cores"),
                "cpu queue", "pin", std::to_string(threads) + " threads");
  }
  const int cpu = worker_cores(topology, threads)[static_cast<std::size_t>(index)];
  const auto room = static_cast<std::size_t>(cpu) + 1;
  cpu_set_t* mask = CPU_ALLOC(room);
  if (mask == nullptr) return fail(ErrorCode::out_of_memory, "no room for an affinity mask", "cpu queue", "pin");
  CPU_ZERO_S(CPU_ALLOC_SIZE(room), mask);
  CPU_SET_S(cpu, CPU_ALLOC_SIZE(room), mask);
  const int error = pthread_setaffinity_np(thread, CPU_ALLOC_SIZE(room), mask);
  CPU_FREE(mask);
  if (error != 0) {
    return fail(ErrorCode::internal, std::string("the system refused: ") + std::strerror(error), "cpu queue", "pin", "processor " + std::to_string(cpu));
  }
  return {};
}

}  // namespace plumb::device
