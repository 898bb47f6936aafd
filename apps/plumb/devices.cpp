#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "device/cpu/host_info.h"
#include "verb.h"

namespace plumb::app {
namespace {

Result<ExitCode> run(Console& console) {
  const int cores = device::usable_cores();
  const std::uint64_t memory = device::usable_memory();
  const std::string name = device::cpu_name();
  const std::string isa = device::cpu_isa();
  if (console.json) {
    console.print_json(nlohmann::ordered_json{
        {"devices", {{{"name", "cpu"}, {"hardware", name}, {"isa", isa}, {"cores", cores}, {"memory_bytes", memory}}}}});
    return ExitCode::ok;
  }
  console.print(fmt::format("cpu  {}, {}, {} core{} and {} of memory for this process\n", name, isa, cores, cores == 1 ? "" : "s",
                            bytes_text(memory)));
  return ExitCode::ok;
}

}  // namespace

Action add_devices(CLI::App&) { return &run; }

}  // namespace plumb::app
