#include "device/cpu/cpu_bank.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "device/address_sanitizer.h"
#include "device/cpu/cpu_core.h"

namespace plumb::device {
namespace {

constexpr std::byte kGuard{0xA5};

// Offset of the first byte that is not kGuard in [lo, hi), or hi.
std::uint64_t first_overwritten(const std::byte* base, std::uint64_t lo, std::uint64_t hi) {
  const std::byte* hit = std::find_if(base + lo, base + hi, [](std::byte b) { return b != kGuard; });
  return static_cast<std::uint64_t>(hit - base);
}

}  // namespace

CpuBank::CpuBank(std::shared_ptr<CpuCore> core, BankPlan plan, Arena arena, std::uint32_t first_id, bool checked)
    : core_(std::move(core)), plan_(std::move(plan)), arena_(std::move(arena)), offsets_(plan_.offsets(checked)),
      bytes_(plan_.total_bytes(checked)), first_id_(first_id), checked_(checked) {
  if (!checked_) {
    // Checked mode reads its guards itself and names the buffer; the sanitizer would stop the program first.
    forbid_access(arena_.base(), bytes_);
    for (std::size_t i = 0; i < offsets_.size(); ++i) allow_access(arena_.base() + offsets_[i], plan_.regions[i].bytes);
    return;
  }
  std::memset(arena_.base(), static_cast<int>(kGuard), bytes_);
  for (std::size_t i = 0; i < offsets_.size(); ++i) poison(i);
}

CpuBank::~CpuBank() { core_->drop(*this); }

Buffer CpuBank::buffer(std::size_t index) const {
  PLUMB_CHECK(index < offsets_.size());
  return {arena_.base() + offsets_[index], plan_.regions[index].bytes, first_id_ + static_cast<std::uint32_t>(index)};
}

Status CpuBank::verify() const {
  if (!checked_) return {};
  std::uint64_t at = 0;  // the end of the region before; guards and alignment lie from there to the next region
  for (std::size_t i = 0; i <= offsets_.size(); ++i) {
    const std::uint64_t end = i < offsets_.size() ? offsets_[i] : bytes_;
    const std::uint64_t hit = first_overwritten(arena_.base(), at, end);
    if (hit != end) {
      // Blame the nearer neighbour: a loop that ran too far wrote behind its buffer, a negative index before it.
      const bool behind = i > 0 && (i == offsets_.size() || hit - at <= end - 1 - hit);
      const std::size_t region = behind ? i - 1 : i;
      const std::string where = behind ? std::to_string(hit - at) + " bytes behind the end"
                                       : std::to_string(end - hit) + " bytes before the start";
      return fail(ErrorCode::device_fault, "something wrote " + where + " of buffer " + name_of(region),
                  "bank " + plan_.name, plan_.regions[region].name,
                  "byte " + std::to_string(static_cast<int>(arena_.base()[hit])));
    }
    if (i < offsets_.size()) at = end + plan_.regions[i].bytes;
  }
  return {};
}

void CpuBank::poison(std::size_t index) {
  if (!checked_) return;
  const Buffer target = buffer(index);
  const std::uint32_t word = poison_word(target.id);
  for (std::uint64_t at = 0; at < target.bytes; at += sizeof word) {
    std::memcpy(target.address + at, &word, std::min<std::uint64_t>(sizeof word, target.bytes - at));
  }
}

std::size_t CpuBank::find(const void* address) const {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const auto base = reinterpret_cast<std::uintptr_t>(arena_.base());
  if (offsets_.empty() || at < base || at - base >= bytes_) return offsets_.size();
  const auto next = std::upper_bound(offsets_.begin(), offsets_.end(), at - base);
  if (next == offsets_.begin()) return offsets_.size();
  const auto index = static_cast<std::size_t>(next - offsets_.begin()) - 1;
  return at - base - offsets_[index] < plan_.regions[index].bytes ? index : offsets_.size();
}

std::string CpuBank::region_at(const void* address) const {
  const std::size_t index = find(address);
  return index < offsets_.size() ? name_of(index) : std::string();
}

std::uint32_t CpuBank::id_at(const void* address) const {
  const std::size_t index = find(address);
  return index < offsets_.size() ? first_id_ + static_cast<std::uint32_t>(index) : 0;
}

std::string CpuBank::region_of(std::uint32_t id) const {
  return id >= first_id_ && id - first_id_ < offsets_.size() ? name_of(id - first_id_) : std::string();
}

}  // namespace plumb::device
