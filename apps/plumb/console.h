// Where a verb's output goes: results to standard output, everything about them (errors, progress) to standard error.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "plumb/status.h"

namespace plumb::app {

class Console {
 public:
  // One JSON document on standard output instead of text, errors included.
  bool json = false;
  // No progress.
  bool quiet = false;

  // Writes text to standard output as it is.
  void print(std::string_view text);
  // Writes one JSON document and a newline. Bytes that are not UTF-8 become U+FFFD.
  void print_json(const nlohmann::ordered_json& document);

  // "plumb: error: ..." as one line on standard error; with json the document {"error": {...}} on standard output.
  void report(const Error& error);

  // Flushes standard output. Error: io when any write to it failed (a full disk, a closed pipe).
  Status finish();

 private:
  bool failed_ = false;
};

// "12.1 GB", "845 kB", "17 B": decimal units, three digits.
std::string bytes_text(std::uint64_t bytes);

// "1,234,567".
std::string grouped(std::uint64_t value);

}  // namespace plumb::app
