#include "device/cpu/host_info.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>

#include "device/cpu/topology.h"

namespace plumb::device {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::optional<std::uint64_t> leading_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

// Calls `visit` with the text of `file` in the process's control group and in each group above it: limits nest.
template <class F>
void each_cgroup(const std::string& root, std::string_view file, F&& visit) {
  std::string path = parse_cgroup_path(read_text(root + "/proc/self/cgroup"));
  for (;;) {
    visit(read_text(root + "/sys/fs/cgroup" + path + "/" + std::string(file)));
    if (path.empty() || path == "/") return;
    path.erase(path.rfind('/'));
  }
}

}  // namespace

std::optional<int> parse_cpu_max(std::string_view text) {
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const auto quota = leading_number(text.substr(0, space));
  const auto period = leading_number(text.substr(space + 1));
  if (!quota || !period || *period == 0) return std::nullopt;
  return static_cast<int>(std::clamp<std::uint64_t>(*quota / *period, 1, 1 << 20));
}

std::string parse_cgroup_path(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (line.starts_with("0::/")) return std::string(line.substr(3));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {};
}

std::optional<int> cpu_quota(const std::string& root) {
  std::optional<int> cores;
  const auto limit = [&](std::optional<int> to) {
    if (to && (!cores || *to < *cores)) cores = to;
  };
  each_cgroup(root, "cpu.max", [&](const std::string& text) { limit(parse_cpu_max(text)); });
  // Control groups v1, as containers on older hosts still have them: the same two numbers in files of their own.
  const std::string v1 = root + "/sys/fs/cgroup/cpu/cpu.cfs_";
  limit(parse_cpu_max(read_text(v1 + "quota_us") + " " + read_text(v1 + "period_us")));
  return cores;
}

int usable_cores() {
  const auto cores = static_cast<int>(cpu_topology().cores.size());
  return std::min(cores, cpu_quota().value_or(cores));
}

int usable_processors() {
  const auto processors = static_cast<int>(allowed_cpus().size());
  return std::min(processors, cpu_quota().value_or(processors));
}

std::uint64_t usable_memory() {
  std::uint64_t bytes = static_cast<std::uint64_t>(std::max(0L, sysconf(_SC_PHYS_PAGES))) *
                        static_cast<std::uint64_t>(std::max(0L, sysconf(_SC_PAGESIZE)));
  each_cgroup({}, "memory.max", [&](const std::string& text) { bytes = std::min(bytes, leading_number(text).value_or(bytes)); });
  if (const auto limit = leading_number(read_text("/sys/fs/cgroup/memory/memory.limit_in_bytes"))) {
    bytes = std::min(bytes, *limit);
  }
  return bytes;
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t start = line.find_first_not_of(" \t:", 10);
    if (start != std::string::npos) return line.substr(start);
  }
  utsname names{};
  return uname(&names) == 0 ? std::string(names.machine) : std::string("cpu");
}

}  // namespace plumb::device
