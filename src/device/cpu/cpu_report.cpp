// The telling half of CpuCore: errors that say which op, layer, kernel and buffer.
#include <cmath>
#include <cstring>

#include "device/cpu/cpu_core.h"

namespace plumb::device {

Error CpuCore::lost_error() const {
  // Called with and without the lock; the reason is written once, before lost_ is set.
  return fail(ErrorCode::device_lost, "the device is lost: " + lost_why_, "cpu queue");
}

Error CpuCore::overdue_error(const CpuBuffer& buffer) const {
  return fail(ErrorCode::deadline_exceeded,
              "the buffer did not complete within " + std::to_string(options_.deadline_ms) + " ms; the device is lost",
              "'" + buffer.label_ + "'");
}

Error CpuCore::launch_error(const CpuBuffer& buffer, std::int64_t launch, std::string message, std::string value) const {
  std::string who = "host command";
  if (launch >= 0 && static_cast<std::size_t>(launch) < buffer.launches_.size()) {
    const LaunchInfo& info = buffer.launches_[static_cast<std::size_t>(launch)];
    who = "launch " + std::to_string(launch) + " " + info.tag.op;
    if (info.tag.layer >= 0) who += " layer " + std::to_string(info.tag.layer);
    who += std::string(" kernel ") + info.kernel->name;
  }
  return fail(ErrorCode::device_fault, std::move(message), "'" + buffer.label_ + "'", std::move(who), std::move(value));
}

Status CpuCore::check_outputs(const CpuBuffer& buffer, std::int32_t launch) {
  const LaunchInfo& info = buffer.launches_[static_cast<std::size_t>(launch)];
  const std::lock_guard lock(mutex_);  // banks_
  for (std::uint32_t i = 0; i < info.operands; ++i) {
    const Operand& operand = buffer.operands_[info.first_operand + i];
    if (!operand.f32 || !operand.written) continue;
    std::uint32_t own_id = 0;
    std::string region;
    for (const CpuBank* bank : banks_) {
      if (own_id == 0) own_id = bank->id_at(operand.address);
      if (region.empty()) region = bank->region_at(operand.address);
    }
    const auto* bytes = static_cast<const std::byte*>(operand.address);
    for (std::uint64_t at = 0; at + sizeof(float) <= operand.bytes; at += sizeof(float)) {
      std::uint32_t word = 0;
      std::memcpy(&word, bytes + at, sizeof word);
      if ((word & 0x7F800000U) != 0x7F800000U) continue;
      // Its own poison as it was laid: an element that nobody wrote yet (a cache is larger than what is in it).
      const bool poison = options_.checked && is_poison(word);
      if (poison && is_untouched_poison(word) && poison_owner(word) == (own_id & 0x1FFFFFU)) continue;
      std::string message = std::string("output ") + operand.name + (region.empty() ? "" : " (buffer " + region + ")") +
                            " element " + std::to_string(at / sizeof(float)) + " is not finite";
      if (poison) {
        for (const CpuBank* bank : banks_) {
          const std::string origin = bank->region_of(poison_owner(word));
          if (!origin.empty()) message += ", read from memory of " + origin + " that nobody wrote";
        }
      }
      return launch_error(buffer, launch, std::move(message), (word & 0x7FFFFFU) == 0 ? "inf" : "nan");
    }
  }
  return {};
}

}  // namespace plumb::device
