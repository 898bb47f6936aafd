// What this build is: printed by --version and recorded beside every result that Plumb states.
#pragma once

#include <string>
#include <string_view>

namespace plumb {

// Facts fixed when the library was compiled. Thread rule: immutable, views of static storage.
struct BuildInfo {
  std::string_view version;     // of the project, "0.1.0"
  std::string_view commit;      // 12 hex digits, with "-dirty" when tracked files differ from it; "unknown" outside a git checkout
  std::string_view compiler;    // "GNU 12.2.0"
  std::string_view build_type;  // "Release", "Debug", ...
  std::string_view flags;       // every compiler flag that the project adds, in order
  std::string_view sanitizers;  // "address,undefined", or "none"
  std::string_view target;      // what was compiled for: "Linux x86_64"
};

const BuildInfo& build_info();

// The machine's own word for what runs now: "Linux 6.1.0-18-amd64 x86_64". "unknown" when the system does not say.
std::string running_system();

}  // namespace plumb
