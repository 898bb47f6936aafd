#include "device/cpu/cpu_buffer.h"

#include <algorithm>
#include <cstring>

#include "device/cpu/cpu_core.h"

namespace plumb::device {
namespace {

constexpr std::uint64_t kDataAlignment = 16;  // of arguments; what operator new gives

// What the first worker does alone: for this much the others would cost more by being waited for (up to a microsecond and a half where
// two workers' caches are far apart) than they help. A row's small ops are such, one after the other, without a barrier in between.
constexpr std::uint64_t kSoloCopyBytes = std::uint64_t{64} << 10;
constexpr std::uint64_t kSoloLaunchBytes = std::uint64_t{40} << 10;
constexpr std::uint64_t kSoloFlops = std::uint64_t{64} << 10;

// A launch that declares nothing is not known to be small.
bool is_solo(const Cost& cost) {
  const std::uint64_t bytes = cost.bytes_read + cost.bytes_written;
  return bytes != 0 && bytes <= kSoloLaunchBytes && cost.flops <= kSoloFlops;
}

bool overlaps(const std::byte* destination, const std::byte* source, std::uint64_t bytes) {
  const auto d = reinterpret_cast<std::uintptr_t>(destination);
  const auto s = reinterpret_cast<std::uintptr_t>(source);
  return d < s + bytes && s < d + bytes;
}

bool inside(const Buffer& buffer, std::uint64_t offset, std::uint64_t bytes) {
  return offset <= buffer.bytes && bytes <= buffer.bytes - offset;
}

Error outside(const char* call, const char* which, const Buffer& buffer, std::uint64_t offset, std::uint64_t bytes) {
  return fail(ErrorCode::invalid_argument,
              std::string(call) + " of " + std::to_string(bytes) + " bytes at " + std::to_string(offset) +
                  " leaves a buffer of " + std::to_string(buffer.bytes),
              "command buffer", which, std::to_string(offset));
}

}  // namespace

void CpuBuffer::open(std::shared_ptr<CpuCore> core, const BeginOptions& options, bool wants_operands) {
  core_ = std::move(core);
  label_.assign(options.label);
  timing_ = options.timing;
  one_by_one_ = options.one_by_one;
  wants_operands_ = wants_operands;
  after_ = options.after;
  commands_.clear();
  launches_.clear();
  data_.clear();
  operands_.clear();
  records_.clear();
  declared_ = {};
  recording_ = {};
  injected_ = {};
  faults_.seen = {};
  faults_.pending = {};
  claimed_.store(false, std::memory_order_relaxed);
  settled_.reset();
  status_ = {};
  fate_fault_ = {};
  skipped_ = false;
  has_records_ = false;
  next_ = nullptr;
}

Status CpuBuffer::reject(Error error) {
  if (recording_.ok()) recording_ = error;
  return error;
}

std::uint64_t CpuBuffer::append(const void* bytes, std::size_t size) {
  const std::uint64_t at = (data_.size() + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
  data_.resize(at + size);
  if (size != 0) std::memcpy(data_.data() + at, bytes, size);
  return at;
}

Status CpuBuffer::launch(const Launch& launch) {
  if (launch.kernel == nullptr || launch.kernel->backend != Backend::cpu || launch.kernel->entry == nullptr) {
    return reject(fail(ErrorCode::invalid_argument, "not a kernel of this device", "command buffer", launch.tag.op,
                       launch.kernel != nullptr ? launch.kernel->name : "no kernel"));
  }
  if (launch.args_bytes > kMaxArgsBytes) {
    return reject(fail(ErrorCode::invalid_argument, "arguments above " + std::to_string(kMaxArgsBytes) + " bytes",
                       "command buffer", launch.tag.op, std::to_string(launch.args_bytes)));
  }
  Command command;
  command.kind = Command::Kind::launch;
  command.solo = is_solo(launch.cost);
  command.launch = static_cast<std::int32_t>(launches_.size());
  command.entry = reinterpret_cast<CpuKernelFn>(const_cast<void*>(launch.kernel->entry));
  command.data = append(launch.args, launch.args_bytes);
  commands_.push_back(command);
  LaunchInfo info{launch.kernel, launch.tag, static_cast<std::uint32_t>(operands_.size()), 0};
  if (wants_operands_) {
    operands_.insert(operands_.end(), launch.operands.begin(), launch.operands.end());
    info.operands = static_cast<std::uint32_t>(launch.operands.size());
  }
  launches_.push_back(info);
  if (timing_) records_.push_back({launch.kernel, launch.tag, launch.cost, 0, 0});
  declared_ += launch.cost;
  return {};
}

Status CpuBuffer::upload(Buffer destination, std::uint64_t offset, std::span<const std::byte> bytes) {
  if (!inside(destination, offset, bytes.size())) {
    return reject(outside("upload", "destination", destination, offset, bytes.size()));
  }
  Command command;
  command.kind = Command::Kind::upload;
  command.solo = bytes.size() <= kSoloCopyBytes;
  command.data = append(bytes.data(), bytes.size());
  command.destination = destination.address + offset;
  command.bytes = bytes.size();
  commands_.push_back(command);
  return {};
}

Status CpuBuffer::copy(Buffer destination, std::uint64_t destination_offset, Buffer source, std::uint64_t source_offset,
                       std::uint64_t bytes) {
  if (!inside(destination, destination_offset, bytes)) {
    return reject(outside("copy", "destination", destination, destination_offset, bytes));
  }
  if (!inside(source, source_offset, bytes)) return reject(outside("copy", "source", source, source_offset, bytes));
  Command command;
  command.kind = Command::Kind::copy;
  command.destination = destination.address + destination_offset;
  command.source = source.address + source_offset;
  command.solo = bytes <= kSoloCopyBytes || overlaps(command.destination, command.source, bytes);
  command.bytes = bytes;
  commands_.push_back(command);
  return {};
}

Status CpuBuffer::fill(Buffer destination, std::uint64_t offset, std::uint64_t bytes, std::byte value) {
  if (!inside(destination, offset, bytes)) return reject(outside("fill", "destination", destination, offset, bytes));
  Command command;
  command.kind = Command::Kind::fill;
  command.solo = bytes <= kSoloCopyBytes;
  command.value = value;
  command.destination = destination.address + offset;
  command.bytes = bytes;
  commands_.push_back(command);
  return {};
}

bool CpuBuffer::chained(std::size_t index) const {
  if (index + 1 == commands_.size()) return false;
  const Command& here = commands_[index];
  const Command& next = commands_[index + 1];
  if (!here.solo || !next.solo) return false;
  if (here.kind != Command::Kind::launch && next.kind != Command::Kind::launch) return true;
  const bool injected = injected_.fail_launch >= 0 || injected_.bad_index_launch >= 0 || injected_.non_finite_launch >= 0;
  return !timing_ && !one_by_one_ && !injected;
}

Status CpuBuffer::wait() {
  if (!settled()) core_->wait_for(*this);
  return status_;
}

bool CpuBuffer::done() const { return settled() || core_->never_blocks(); }

std::span<const LaunchRecord> CpuBuffer::records() const {
  return has_records_ ? std::span<const LaunchRecord>(records_) : std::span<const LaunchRecord>();
}

bool CpuBuffer::settle(Status status, bool complete) {
  if (claimed_.exchange(true)) {
    settled_.sleep_while(0);  // the other is writing; a successor may read the status next
    return false;
  }
  status_ = std::move(status);
  if (complete) {
    fate_fault_ = faults_.seen;
    has_records_ = timing_;
  }
  settled_.advance();
  return true;
}

void CpuBuffer::abandon() { core_->abandon(*this); }

void CpuBuffer::release() {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) core_->recycle(*this);
}

}  // namespace plumb::device
