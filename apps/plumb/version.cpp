#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/build_info.h"
#include "verb.h"

namespace plumb::app {
namespace {

Result<ExitCode> run(Console& console) {
  const BuildInfo& build = build_info();
  if (console.json) {
    console.print_json(nlohmann::ordered_json{{"version", build.version}, {"commit", build.commit}, {"compiler", build.compiler},
                                         {"build_type", build.build_type}, {"flags", build.flags},
                                         {"sanitizers", build.sanitizers}, {"target", build.target},
                                         {"system", running_system()}});
    return ExitCode::ok;
  }
  console.print(fmt::format("plumb {}\ncommit      {}\ncompiler    {}\nbuild       {}\nflags       {}\nsanitizers  {}\ntarget      {}\n"
                            "system      {}\n",
                            build.version, build.commit, build.compiler, build.build_type, build.flags, build.sanitizers, build.target,
                            running_system()));
  return ExitCode::ok;
}

}  // namespace

Action add_version(CLI::App&) { return &run; }

}  // namespace plumb::app
