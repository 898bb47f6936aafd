#include "device/bank.h"

#include <algorithm>
#include <optional>

#include "base/parse_limits.h"
#include "device/address_sanitizer.h"

namespace plumb::device {
namespace {

std::uint64_t guard_bytes(bool checked) { return checked || kUnderAddressSanitizer ? kGuardBytes : 0; }

// Bytes a region takes with its alignment and the guard behind it; nullopt when that wraps.
std::optional<std::uint64_t> footprint(std::uint64_t bytes, bool checked) {
  const auto padded = checked_add(bytes, kBankAlignment - 1);
  if (!padded) return std::nullopt;
  return checked_add(*padded / kBankAlignment * kBankAlignment, guard_bytes(checked));
}

}  // namespace

std::uint64_t BankPlan::total_bytes(bool checked) const {
  std::optional<std::uint64_t> total = guard_bytes(checked);
  for (const BankRegion& region : regions) {
    const auto bytes = footprint(region.bytes, checked);
    total = bytes ? checked_add(*total, *bytes) : std::nullopt;
    if (!total) return UINT64_MAX;
  }
  return *total;
}

std::vector<std::uint64_t> BankPlan::offsets(bool checked) const {
  std::vector<std::uint64_t> result;
  result.reserve(regions.size());
  std::uint64_t at = guard_bytes(checked);
  for (const BankRegion& region : regions) {
    result.push_back(at);
    at += footprint(region.bytes, checked).value_or(0);
  }
  return result;
}

Status BankPlan::fits(bool checked, std::uint64_t reserved, std::uint64_t banks, std::uint64_t limit) const {
  const std::uint64_t asked = total_bytes(checked);
  const auto sum = checked_add(asked, reserved);
  if (sum && *sum <= limit) return {};
  const auto largest = std::max_element(regions.begin(), regions.end(),
                                        [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  std::string message = std::to_string(regions.size()) + " regions";
  if (largest != regions.end()) {
    message += " (largest '" + largest->name + "' " + std::to_string(largest->bytes) + ")";
  }
  message += asked == UINT64_MAX ? " need more than 2^64 bytes" : " need " + std::to_string(asked) + " bytes";
  message += " + " + std::to_string(reserved) + " reserved in " + std::to_string(banks) + " banks";
  if (sum && asked != UINT64_MAX) message += " = " + std::to_string(*sum);
  message += ", above the limit of " + std::to_string(limit);
  return fail(ErrorCode::out_of_memory, std::move(message), "bank " + name, "bytes", std::to_string(asked));
}

}  // namespace plumb::device
