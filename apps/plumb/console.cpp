#include "console.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "base/status.h"
#include "verb.h"

namespace plumb::app {

void Console::print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) failed_ = true;
}

void Console::print_json(const nlohmann::ordered_json& document) {
  print(document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

void Console::report(const Error& error) {
  if (json) {
    const nlohmann::ordered_json document = {{"error",
                                              {{"code", to_string(error.code)},
                                               {"message", error.message},
                                               {"subject", error.subject},
                                               {"field", error.field},
                                               {"value", error.value}}}};
    print_json(document);
    return;
  }
  std::string text = error.to_string();
  if (is_usage_error(error)) {  // the option, and what is wrong with it; no file is to blame
    text = (error.field.empty() ? "" : error.field + ": ") + error.message + (error.value.empty() ? "" : " (found " + error.value + ")");
  }
  const std::string line = "plumb: error: " + printable(text, 4096) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

Status Console::finish() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) failed_ = true;
  if (failed_) return fail(ErrorCode::io, "cannot write the output", "standard output");
  return {};
}

std::string bytes_text(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  if (bytes < 1000) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 999.5 && unit < 6) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, kUnits[unit]);
}

std::string grouped(std::uint64_t value) {
  std::string digits = std::to_string(value);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3) digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

}  // namespace plumb::app
