#include "conversion_report.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "error_tally.h"

namespace plumb::app {
namespace {

using format::quantize::ErrorSum;

double bits_of(const Written& written, const Conversion& c) {
  std::uint64_t elements = 0;
  for (const TensorJob& job : c.jobs) elements += *element_count(job.shape);
  return elements == 0 ? 0 : 8.0 * static_cast<double>(written.bytes) / static_cast<double>(elements);
}

bool any_quantised(const Conversion& c) {
  for (const auto& errors : c.errors) {
    if (errors != nullptr) return true;
  }
  return false;
}

// One line for each quantised tensor, then for each format.
std::string error_lines(const Conversion& c) {
  std::string out = fmt::format("{:<34} {:>17}  {:>10}  {:>10}\n", "tensor", "format", "rms error", "max abs");
  std::map<std::string, ErrorSum> by_format;
  std::map<std::string, int> wide;
  for (std::size_t i = 0; i < c.jobs.size(); ++i) {
    const std::string format(to_string(c.jobs[i].dtype));
    if (c.errors[i] == nullptr) {
      ++wide[format];
      continue;
    }
    const ErrorSum sum = c.errors[i]->total();
    by_format[format].add(sum);
    out += fmt::format("{:<34} {:>17}  {:>9.4f}%  {:>10.3e}\n", c.jobs[i].name, fmt::format("{} > {}", to_string(c.origins[i].from_dtype), format),
                       100 * sum.relative_rms(), sum.max_abs);
  }
  for (const auto& [format, sum] : by_format) {
    out += fmt::format("{:<34} {:>17}  {:>9.4f}%  {:>10.3e}\n", "all", format, 100 * sum.relative_rms(), sum.max_abs);
  }
  std::string kept;
  for (const auto& [format, count] : wide) kept += fmt::format("{}{} {}", kept.empty() ? "" : ", ", count, format);
  return out + fmt::format("not quantised: {} (norms, biases, sinks, routers, and what was asked to stay)\n", kept.empty() ? "nothing" : kept);
}

}  // namespace

std::string conversion_text(const ConversionReport& r) {
  const Conversion& c = r.conversion;
  std::string out;
  if (any_quantised(c)) out += error_lines(c);
  for (const std::string& warning : c.warnings) out += "warning: " + warning + "\n";
  std::map<std::string, int> actions;
  for (const Origin& origin : c.origins) ++actions[origin.action];
  std::string done;
  for (const auto& [action, count] : actions) done += fmt::format("{}{} {}", done.empty() ? "" : ", ", count, action);
  out += fmt::format("{}: {}, {} tensors ({}), {} tokens, {}, {:.2f} bits a weight; digest {}\n", r.output, c.family, c.jobs.size(), done,
                     c.tokens, bytes_text(r.written.bytes), bits_of(r.written, c), r.written.digest);
  if (r.kl.has_value()) out += kl_text(*r.kl);
  return out;
}

nlohmann::ordered_json conversion_json(const ConversionReport& r) {
  const Conversion& c = r.conversion;
  nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < c.jobs.size(); ++i) {
    const Origin& origin = c.origins[i];
    nlohmann::ordered_json row = {{"name", c.jobs[i].name}, {"dtype", to_string(c.jobs[i].dtype)}, {"shape", c.jobs[i].shape},
                                  {"from", origin.from}, {"from_dtype", to_string(origin.from_dtype)}, {"action", origin.action}};
    if (c.errors[i] != nullptr) {
      const ErrorSum sum = c.errors[i]->total();
      row["error"] = {{"relative_rms", sum.relative_rms()}, {"max_abs", sum.max_abs}};
    }
    tensors.push_back(std::move(row));
  }
  nlohmann::ordered_json out = {{"input", r.input}, {"output", r.output}, {"family", c.family}, {"tensors", std::move(tensors)},
                                {"tensor_bytes", r.written.bytes}, {"bits_per_weight", bits_of(r.written, c)}, {"tokens", c.tokens},
                                {"warnings", c.warnings}, {"kl", nullptr}, {"digest", r.written.digest}, {"seconds", r.written.seconds}};
  if (r.kl.has_value()) out["kl"] = kl_json(*r.kl);
  return out;
}

}  // namespace plumb::app
