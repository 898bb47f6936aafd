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

struct CpuTopology {
  std::vector<int> cpus;   // logical processors this process may run on, ascending
  std::vector<int> cores;  // of those the first of each physical core; where cores are unlike, the faster ones first
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

// "0-2,8" is {0, 1, 2, 8}, ascending. What is not a list of that form ends it; numbers from 65,536 on are left out.
std::vector<int> parse_cpu_list(std::string_view text);

}  // namespace plumb::device
