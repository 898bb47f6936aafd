// How the processors that this process may use hang together: physical cores, their threads, caches, cores of unlike speed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plumb::device {

// A kind of cache, as often as usable processors see different ones of it.
struct CpuCache {
  int level = 0;
  std::string type;         // "Data", "Instruction", "Unified"
  std::uint64_t bytes = 0;  // of one
  int count = 0;

  bool operator==(const CpuCache&) const = default;
};

// Where a core is. Cores of one last-level cache commonly share one way to memory as well.
struct CorePlace {
  int package = 0;
  int last_cache = 0;  // numbered over the machine; 0 where the system does not say

  bool operator==(const CorePlace&) const = default;
};

struct CpuTopology {
  std::vector<int> cpus;   // logical processors this process may run on, ascending
  std::vector<int> cores;  // of those the first of each physical core; where cores are unlike, the faster ones first
  std::vector<CorePlace> places;  // of cores[i]
  int packages = 1;
  bool mixed = false;      // cores are unlike
  std::vector<CpuCache> caches;

  // Whether a core of the list has more than one usable thread.
  bool smt() const { return cpus.size() > cores.size(); }
};

// The processors in this process's affinity mask (cpuset and taskset included), ascending; never empty.
std::vector<int> allowed_cpus();

// Reads /sys/devices/system/cpu below `root` ("" is the machine). What the system does not say is taken as: every processor a core
// of its own, all alike. REQUIRES: allowed is ascending and not empty.
CpuTopology read_topology(const std::string& root, std::span<const int> allowed);
// Of this machine and process.
CpuTopology cpu_topology();

// The processors to which `threads` workers are tied, worker by worker. Of the cores of a package each last-level cache gives one, then each
// another, since a cache commonly has a way to memory of its own; then those of the next package. In the list cores of one cache are
// neighbours, as neighbours meet first at a barrier. Unlike cores: the faster ones, as they come.
// REQUIRES: 0 <= threads <= cores.size().
std::vector<int> worker_cores(const CpuTopology& topology, int threads);

// "0-2,8" is {0, 1, 2, 8}, ascending. What is not a list of that form ends it; numbers from 65,536 on are left out.
std::vector<int> parse_cpu_list(std::string_view text);

}  // namespace plumb::device
