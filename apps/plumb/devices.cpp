// plumb devices: what this build can compute on here, which kernels would be taken, and what the machine gives them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "device/cpu/barrier_cost.h"
#include "device/cpu/host_info.h"
#include "device/cpu/read_bandwidth.h"
#include "device/cpu/topology.h"
#include "kernels/table.h"
#include "verb.h"

namespace plumb::app {
namespace {

using kernels::Isa;

struct Options {
  std::string isa;
  int threads = 0;
  bool pin = false;
  bool measure = true;
};

constexpr double kBandwidthSeconds = 0.5;

// What is known of one device, the CPU.
struct Report {
  Isa isa = Isa::portable;
  bool forced = false;
  int threads = 0;
  std::optional<int> quota;
  device::CpuTopology topology;
  std::optional<double> read_bytes_per_s;
  std::optional<double> barrier_ns;
};

// The kernels of an op that would be chosen: for each name the best that the set allows.
std::vector<const kernels::KernelEntry*> chosen_kernels(const kernels::OpDesc& op, Isa isa) {
  std::vector<const kernels::KernelEntry*> chosen;
  for (const kernels::KernelEntry& entry : kernels::all_kernels()) {
    if (entry.op != &op || entry.kernel.backend != device::Backend::cpu || !kernels::isa_includes(isa, entry.isa)) continue;
    const auto same = [&](const auto* other) { return std::string_view(other->kernel.name) == entry.kernel.name; };
    if (std::none_of(chosen.begin(), chosen.end(), same)) chosen.push_back(&entry);
  }
  return chosen;
}

// Why a set is taken or not, in words.
std::string verdict(Isa isa, const Report& report) {
  if (!kernels::isa_runs_on(isa, device::cpu_features())) return fmt::format("this machine lacks {}", kernels::needs(isa));
  if (isa == report.isa) return report.forced ? "taken: --isa asks for it" : "taken: the best that build and machine have";
  return kernels::isa_includes(report.isa, isa) ? "below the one taken: has the kernels that it lacks" : "not asked for";
}

Result<Report> look(const Options& o) {
  Report report;
  report.isa = kernels::best_isa();
  if (!o.isa.empty()) {
    PLUMB_ASSIGN(report.isa, kernels::parse_isa(o.isa));
    report.forced = true;
  }
  report.threads = o.threads > 0 ? o.threads : device::usable_cores();
  report.quota = device::cpu_quota();
  report.topology = device::cpu_topology();
  if (o.measure) {
    PLUMB_ASSIGN(report.barrier_ns, device::measure_barrier(report.threads, o.pin));
    PLUMB_ASSIGN(const device::ReadBandwidth reading, device::ReadBandwidth::open(report.threads));
    PLUMB_ASSIGN(report.read_bytes_per_s, reading.measure(kBandwidthSeconds));
  }
  return report;
}

nlohmann::ordered_json document(const Report& report) {
  nlohmann::ordered_json isas = nlohmann::ordered_json::array();
  for (const Isa isa : kernels::built_isas()) {
    isas.push_back({{"name", kernels::to_string(isa)},
                    {"needs", kernels::needs(isa)},
                    {"machine_has", kernels::isa_runs_on(isa, device::cpu_features())},
                    {"verdict", verdict(isa, report)}});
  }
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const kernels::OpDesc* op : kernels::all_ops()) {
    for (const auto* entry : chosen_kernels(*op, report.isa)) {
      list.push_back({{"op", op->name}, {"kernel", entry->kernel.name}, {"isa", kernels::to_string(entry->isa)}});
    }
  }
  nlohmann::ordered_json caches = nlohmann::ordered_json::array();
  for (const device::CpuCache& cache : report.topology.caches) {
    caches.push_back({{"level", cache.level}, {"type", cache.type}, {"bytes", cache.bytes}, {"count", cache.count}});
  }
  nlohmann::ordered_json cpu = {{"name", "cpu"},
                                {"hardware", device::cpu_name()},
                                {"features", device::to_string(device::cpu_features())},
                                {"isa", kernels::to_string(report.isa)},
                                {"isas", std::move(isas)},
                                {"threads", report.threads},
                                {"cores", device::usable_cores()},
                                {"processors", report.topology.cpus.size()},
                                {"physical_cores", report.topology.cores.size()},
                                {"packages", report.topology.packages},
                                {"unlike_cores", report.topology.mixed},
                                {"quota_cores", report.quota ? nlohmann::ordered_json(*report.quota) : nlohmann::ordered_json()},
                                {"caches", std::move(caches)},
                                {"memory_bytes", device::usable_memory()}};
  if (report.read_bytes_per_s) cpu["read_bytes_per_s"] = *report.read_bytes_per_s;
  if (report.barrier_ns) cpu["barrier_ns"] = *report.barrier_ns;
  cpu["kernels"] = std::move(list);
  return {{"devices", nlohmann::ordered_json::array({std::move(cpu)})}};
}

std::string plural(std::size_t n, std::string_view what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); }

std::string text(const Report& report) {
  const device::CpuTopology& t = report.topology;
  std::string out = fmt::format("cpu        {}, {} of memory for this process\n", device::cpu_name(), bytes_text(device::usable_memory()));
  out += fmt::format("cores      {}, {}{}{}{}; {} taken\n", plural(t.cores.size(), "physical core"), plural(t.cpus.size(), "processor"),
                     t.packages > 1 ? fmt::format(", {} packages", t.packages) : "", t.mixed ? ", of unlike speed" : "",
                     report.quota ? fmt::format(", limited to {} by a control group", *report.quota) : "",
                     plural(static_cast<std::size_t>(report.threads), "worker"));
  std::string caches;
  for (const device::CpuCache& cache : t.caches) {
    if (cache.type == "Instruction") continue;
    caches += fmt::format("{}L{} {} x {}", caches.empty() ? "" : ", ", cache.level, cache.count, bytes_text(cache.bytes));
  }
  if (!caches.empty()) out += "caches     " + caches + "\n";
  if (report.read_bytes_per_s) out += fmt::format("memory     read at {:.1f} GB/s by all workers\n", *report.read_bytes_per_s * 1e-9);
  if (report.barrier_ns) out += fmt::format("barrier    {:.0f} ns when all are awake\n", *report.barrier_ns);
  out += "\n";
  for (const Isa isa : kernels::built_isas()) {
    out += fmt::format("{}{:<9} {}\n", isa == report.isa ? "* " : "  ", kernels::to_string(isa), verdict(isa, report));
  }
  out += "\n";
  for (const kernels::OpDesc* op : kernels::all_ops()) {
    // One line for each set that has a kernel of the op, best first.
    std::vector<Isa> sets;
    for (const auto* entry : chosen_kernels(*op, report.isa)) {
      if (std::find(sets.begin(), sets.end(), entry->isa) == sets.end()) sets.push_back(entry->isa);
    }
    for (const Isa isa : sets) {
      std::string names;
      for (const auto* entry : chosen_kernels(*op, report.isa)) {
        if (entry->isa == isa) names += std::string(names.empty() ? "" : " ") + entry->kernel.name;
      }
      out += fmt::format("{:<12} {:<9} {}\n", op->name, kernels::to_string(isa), names);
    }
  }
  return out;
}

Result<ExitCode> run(const Options& o, Console& console) {
  PLUMB_ASSIGN(const Report report, look(o));
  if (console.json) {
    console.print_json(document(report));
  } else {
    console.print(text(report));
  }
  return ExitCode::ok;
}

}  // namespace

Action add_devices(CLI::App& command) {
  const auto o = std::make_shared<Options>();
  command.add_option("--isa", o->isa, "show what this instruction set would take (default: the best)");
  command.add_option("--threads", o->threads, "workers that the measurements use; 0: as many as an engine takes")->check(CLI::Range(0, 512));
  command.add_flag("--pin", o->pin, "measure the barrier with each worker on a core of its own");
  command.add_flag("!--no-measure", o->measure, "leave out what takes a second: memory and barrier");
  return [o](Console& console) { return run(*o, console); };
}

}  // namespace plumb::app
