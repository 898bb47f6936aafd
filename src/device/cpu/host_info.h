// What this process may use of its machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace plumb::device {

// Physical cores this process may keep busy: those in its affinity mask, cut to the CPU quota of its control group. At least 1. A
// second thread of a core adds nothing to kernels that keep its vector units busy, and makes every barrier wait for two.
int usable_cores();

// Threads that can run at once: the processors in the affinity mask, cut to the quota. At least usable_cores().
int usable_processors();

// Whole cores that the control groups of this process allow, the tightest of v2's nested ones or v1's; nullopt where there is no
// limit. `root` is put before /proc and /sys: "" is the machine. At least 1.
std::optional<int> cpu_quota(const std::string& root = {});

// Memory this process may use: physical memory, cut to the limit of its control group. In bytes.
std::uint64_t usable_memory();

// "AMD EPYC 7B13" from the processor itself, or the machine architecture where it does not say.
std::string cpu_name();

// Whole cores of a cgroup v2 cpu.max ("200000 100000" is 2); nullopt for "max" or text that is not one. At least 1: a quota
// of half a core still runs one thread. Rounds down, because one thread more than the quota stalls all at every barrier.
std::optional<int> parse_cpu_max(std::string_view text);

// The cgroup v2 path in /proc/self/cgroup ("0::/a/b" gives "/a/b"); empty when there is none.
std::string parse_cgroup_path(std::string_view text);

}  // namespace plumb::device
