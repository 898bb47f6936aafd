#include "device/cpu/topology.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <set>

#include "base/check.h"

namespace plumb::device {
namespace {

constexpr int kMaxCpu = 1 << 16;
constexpr int kMaxCaches = 8;  // that a processor sees

std::string read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// `otherwise` where the file is absent or holds no number.
std::int64_t read_number(const std::string& path, std::int64_t otherwise) {
  const std::string text = read_line(path);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? value : otherwise;
}

// "32K" in bytes.
std::uint64_t cache_bytes(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return 0;
  const char unit = end != text.data() + text.size() ? *end : ' ';
  return value << (unit == 'K' ? 10 : unit == 'M' ? 20 : 0);
}

// What a core can do against the others: the capacity that ARM systems state, else its highest clock. 0: not said.
std::int64_t speed_of(const std::string& folder) {
  return read_number(folder + "/cpu_capacity", read_number(folder + "/cpufreq/cpuinfo_max_freq", 0));
}

// Who shares the cache of the highest level, as a list of processors; empty where that is not said.
std::string last_cache_of(const std::string& folder) {
  std::int64_t highest = 0;
  std::string shared;
  for (int index = 0; index < kMaxCaches; ++index) {
    const std::string at = folder + "/cache/index" + std::to_string(index);
    const std::int64_t level = read_number(at + "/level", 0);
    if (level > highest) {
      highest = level;
      shared = read_line(at + "/shared_cpu_list");
    }
  }
  return shared;
}

std::vector<CpuCache> read_caches(const std::string& cpu_folder, std::span<const int> allowed) {
  // Each cache once, by the list of those who share it.
  std::map<std::pair<int, std::string>, std::set<std::string>> shared;
  std::map<std::pair<int, std::string>, std::uint64_t> bytes;
  for (const int cpu : allowed) {
    const std::string folder = cpu_folder + std::to_string(cpu) + "/cache/index";
    for (int index = 0; index < kMaxCaches; ++index) {
      const std::string at = folder + std::to_string(index);
      const auto level = static_cast<int>(read_number(at + "/level", 0));
      if (level == 0) break;
      const std::pair key(level, read_line(at + "/type"));
      shared[key].insert(read_line(at + "/shared_cpu_list"));
      bytes[key] = cache_bytes(read_line(at + "/size"));
    }
  }
  std::vector<CpuCache> caches;
  for (const auto& [key, lists] : shared) caches.push_back({key.first, key.second, bytes[key], static_cast<int>(lists.size())});
  return caches;
}

}  // namespace

std::vector<int> parse_cpu_list(std::string_view text) {
  std::vector<int> cpus;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    int first = 0;
    auto [next, error] = std::from_chars(at, end, first);
    if (error != std::errc() || first < 0) break;
    int last = first;
    if (next != end && *next == '-') {
      const auto range = std::from_chars(next + 1, end, last);
      if (range.ec != std::errc()) break;
      next = range.ptr;
    }
    for (int cpu = first; cpu <= std::min(last, kMaxCpu - 1); ++cpu) cpus.push_back(cpu);
    if (next == end || *next != ',') break;
    at = next + 1;
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
  // The mask must have room for every processor that the kernel knows, or the call fails: so ask with more until it does not.
  for (int room = 1024; room <= kMaxCpu && cpus.empty(); room *= 4) {
    cpu_set_t* mask = CPU_ALLOC(room);
    const std::size_t bytes = CPU_ALLOC_SIZE(room);
    if (mask == nullptr) break;
    CPU_ZERO_S(bytes, mask);
    if (sched_getaffinity(0, bytes, mask) == 0) {
      for (int cpu = 0; cpu < room; ++cpu) {
        if (CPU_ISSET_S(cpu, bytes, mask)) cpus.push_back(cpu);
      }
    }
    CPU_FREE(mask);
  }
  for (long cpu = 0; cpus.empty() && cpu < std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)); ++cpu) cpus.push_back(static_cast<int>(cpu));
  return cpus;
}

CpuTopology read_topology(const std::string& root, std::span<const int> allowed) {
  PLUMB_CHECK(!allowed.empty());
  const std::string cpu_folder = root + "/sys/devices/system/cpu/cpu";
  CpuTopology topology;
  topology.cpus.assign(allowed.begin(), allowed.end());
  std::set<std::int64_t> packages;
  std::map<int, std::int64_t> speed;
  std::map<int, CorePlace> place;
  std::map<std::string, int> caches;  // by those who share one
  for (const int cpu : allowed) {
    const std::string folder = cpu_folder + std::to_string(cpu);
    const std::int64_t package = read_number(folder + "/topology/physical_package_id", 0);
    packages.insert(package);
    // A thread whose sibling came before it shares a core that is counted.
    const std::vector<int> siblings = parse_cpu_list(read_line(folder + "/topology/thread_siblings_list"));
    const bool counted = std::any_of(topology.cores.begin(), topology.cores.end(), [&](int core) {
      return std::binary_search(siblings.begin(), siblings.end(), core);
    });
    if (counted) continue;
    topology.cores.push_back(cpu);
    speed[cpu] = speed_of(folder);
    const int last_cache = caches.try_emplace(last_cache_of(folder), static_cast<int>(caches.size())).first->second;
    place[cpu] = {static_cast<int>(package), last_cache};
  }
  topology.packages = static_cast<int>(packages.size());
  const auto slower = [&](int a, int b) { return speed[a] < speed[b]; };
  const auto [slowest, fastest] = std::minmax_element(topology.cores.begin(), topology.cores.end(), slower);
  // Cores of one kind may differ by a turbo step; those of another kind differ by far more.
  topology.mixed = speed[*slowest] > 0 && speed[*slowest] * 5 < speed[*fastest] * 4;
  if (topology.mixed) {
    std::sort(topology.cores.begin(), topology.cores.end(),
              [&](int a, int b) { return speed[a] != speed[b] ? speed[a] > speed[b] : a < b; });
  }
  for (const int core : topology.cores) topology.places.push_back(place[core]);
  topology.caches = read_caches(cpu_folder, allowed);
  return topology;
}

std::vector<int> worker_cores(const CpuTopology& topology, int threads) {
  PLUMB_CHECK(threads >= 0 && static_cast<std::size_t>(threads) <= topology.cores.size());
  std::vector<std::size_t> order(topology.cores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto place = [&](std::size_t i) { return std::pair(topology.places[i].package, topology.places[i].last_cache); };
  if (!topology.mixed) {
    // The first core of every cache of a package, then the second, and so on; then the next package.
    std::vector<int> turn(order.size());
    std::map<std::pair<int, int>, int> taken;
    for (const std::size_t i : order) turn[i] = taken[place(i)]++;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(topology.places[a].package, turn[a]) < std::pair(topology.places[b].package, turn[b]);
    });
  }
  order.resize(static_cast<std::size_t>(threads));
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return place(a) < place(b); });
  std::vector<int> cpus;
  for (const std::size_t i : order) cpus.push_back(topology.cores[i]);
  return cpus;
}

CpuTopology cpu_topology() { return read_topology({}, allowed_cpus()); }

}  // namespace plumb::device
