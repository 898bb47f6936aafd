// The running half of CpuCore: what the workers do with a buffer.
#include <cmath>
#include <cstring>

#include "base/clock.h"
#include "device/cpu/cpu_core.h"

namespace plumb::device {

CpuCore::Context CpuCore::context(int index) const {
  return {index, {scratch_.base() + static_cast<std::size_t>(index) * kWorkerScratchBytes, kWorkerScratchBytes}, {}, {}};
}

void CpuCore::work(int index) {
  Context mine = context(index);
  while (CpuBuffer* buffer = next(mine)) execute(*buffer, mine);
}

CpuBuffer* CpuCore::next(Context& mine) {
  for (;;) {
    const std::uint32_t bell = bell_.load();
    {
      const std::lock_guard lock(mutex_);
      if (head_ != nullptr) return head_;
      if (closing_.load()) return nullptr;
    }
    bell_.wait_while(bell, idle_pause_us_, mine.between_buffers);
  }
}

void CpuCore::execute(CpuBuffer& buffer, Context& mine) {
  const std::size_t count = buffer.commands_.size();
  barrier_.arrive(mine.index, mine.between_launches, [&] { before_first(buffer); });
  // stop_ is constant between barriers; the buffer is not touched once it is set.
  for (std::size_t i = 0; !stop_ && i < count; ++i) {
    run_command(buffer, buffer.commands_[i], mine);
    if (buffer.chained(i)) {
      if (mine.index == 0) between_launches(buffer);
      continue;
    }
    barrier_.arrive(mine.index, mine.between_launches, [&] { after_command(buffer, i); });
  }
}

void CpuCore::run_command(const CpuBuffer& buffer, const Command& command, const Context& mine) {
  if (command.solo && mine.index != 0) return;
  if (command.kind == Command::Kind::launch) {
    // The workers share the sink on purpose: it has its own lock.
    auto& faults = const_cast<FaultSink&>(buffer.faults_);
    Worker worker(mine.index, command.solo ? 1 : info_.threads, mine.scratch, &ticket_, &runs_, &faults, command.launch);
    command.entry(buffer.data(command), worker);
    return;
  }
  std::uint64_t lo = 0;
  std::uint64_t hi = command.bytes;
  if (!command.solo) {
    const Worker share(mine.index, info_.threads, {}, nullptr, nullptr, nullptr, -1);
    const auto [first, last] = share.share(static_cast<std::int64_t>(command.bytes), 4096);
    lo = static_cast<std::uint64_t>(first);
    hi = static_cast<std::uint64_t>(last);
  }
  if (lo == hi) return;
  switch (command.kind) {
    case Command::Kind::upload: std::memcpy(command.destination + lo, buffer.data(command) + lo, hi - lo); break;
    case Command::Kind::copy: std::memmove(command.destination + lo, command.source + lo, hi - lo); break;
    case Command::Kind::fill: std::memset(command.destination + lo, static_cast<int>(command.value), hi - lo); break;
    case Command::Kind::launch: break;
  }
}

void CpuCore::before_first(CpuBuffer& buffer) {
  stop_ = false;
  between_launches(buffer);
  if (buffer.timing_) last_stamp_ns_ = monotonic_ns();
  const CpuBuffer* before = static_cast<const CpuBuffer*>(buffer.after_.state());
  if (!buffer.recording_.ok()) {
    complete(buffer, buffer.recording_);
  } else if (before != nullptr && !before->status_.ok()) {
    buffer.skipped_ = true;
    buffer.faults_.seen = before->fate_fault_;
    Error error = before->status_.error();
    if (!before->skipped_) error.message = "not run, it follows a failed buffer: " + error.message;
    complete(buffer, std::move(error));
  } else if (buffer.injected_.refused) {
    complete(buffer, fail(ErrorCode::device_fault, "injected: the device refused the buffer", "'" + buffer.label_ + "'",
                          "submit"));
  } else if (buffer.injected_.hang) {
    hang();
    if (!stopped(buffer, 0)) {
      // Only an inline queue comes here: nobody else could end it.
      lose("an injected hang");
      complete(buffer, overdue_error(buffer));
    }
  } else if (!stopped(buffer, 0) && buffer.commands_.empty()) {
    end(buffer);
  }
}

void CpuCore::hang() {
  while (!options_.inline_execution && !lost_.load() && !closing_.load()) {
    const std::uint32_t alarm = alarm_.load();
    if (lost_.load() || closing_.load()) return;
    alarm_.sleep_while(alarm);
  }
}

bool CpuCore::stopped(CpuBuffer& buffer, std::size_t index) {
  if (closing_.load()) {
    complete(buffer, fail(ErrorCode::cancelled, "the queue was shut down before the buffer completed",
                          "'" + buffer.label_ + "'"));
    return true;
  }
  if (lost_.load()) {
    complete(buffer, lost_error());
    return true;
  }
  if (inline_deadline_ns_ != 0 && monotonic_ns() > inline_deadline_ns_) {
    lose("a wait passed its deadline of " + std::to_string(options_.deadline_ms) + " ms");
    complete(buffer, overdue_error(buffer));
    return true;
  }
  if (index < buffer.commands_.size() && buffer.injected_.fail_launch >= 0 &&
      buffer.commands_[index].launch == buffer.injected_.fail_launch) {
    Error error = launch_error(buffer, buffer.injected_.fail_launch, "injected: the launch failed", {});
    if (buffer.injected_.lost) {
      error.code = ErrorCode::device_lost;
      error.message = "injected: the device was lost";
      lose("the device was lost in '" + buffer.label_ + "', " + error.field);
    }
    complete(buffer, std::move(error));
    return true;
  }
  return false;
}

void CpuCore::between_launches(CpuBuffer& buffer) {
  ticket_.store(0, std::memory_order_relaxed);
  runs_.next_launch();
  buffer.faults_.fold();
}

void CpuCore::after_command(CpuBuffer& buffer, std::size_t index) {
  const Command& command = buffer.commands_[index];
  if (command.launch >= 0) inject_after(buffer, command.launch);
  between_launches(buffer);
  if (buffer.timing_) {
    const std::uint64_t now = monotonic_ns();
    if (command.launch >= 0) {
      buffer.records_[static_cast<std::size_t>(command.launch)].t0_ns = last_stamp_ns_;
      buffer.records_[static_cast<std::size_t>(command.launch)].t1_ns = now;
    }
    last_stamp_ns_ = now;
  }
  if (buffer.one_by_one_) {
    Status status;
    if (command.launch >= 0) status = check_outputs(buffer, command.launch);
    if (status.ok()) {
      status = verify_banks();
      if (!status.ok()) {
        const std::string message = status.error().message;
        status = launch_error(buffer, command.launch, message, status.error().value);
      }
    }
    if (status.ok() && buffer.faults_.seen.count != 0) {
      end(buffer);
      return;
    }
    if (!status.ok()) {
      complete(buffer, std::move(status));
      return;
    }
  }
  if (index + 1 == buffer.commands_.size()) {
    end(buffer);
  } else {
    stopped(buffer, index + 1);
  }
}

void CpuCore::inject_after(CpuBuffer& buffer, std::int32_t launch) {
  const auto count = [&](FaultKind kind, std::int64_t value, std::int64_t limit, std::int64_t row = -1) {
    Worker(0, 1, {}, nullptr, nullptr, &buffer.faults_, launch).report(value, limit, kind, row);
  };
  if (launch == buffer.injected_.bad_index_launch) count(FaultKind::bad_index, -1, 1, buffer.injected_.bad_index_row);
  if (launch != buffer.injected_.non_finite_launch) return;
  const LaunchInfo& info = buffer.launches_[static_cast<std::size_t>(launch)];
  for (std::uint32_t i = 0; i < info.operands; ++i) {
    const Operand& operand = buffer.operands_[info.first_operand + i];
    if (!operand.f32 || !operand.written || operand.bytes < sizeof(float)) continue;
    const float nan = std::nanf("");
    std::memcpy(const_cast<void*>(operand.address), &nan, sizeof nan);
    return;
  }
  count(FaultKind::non_finite, 0, 0);
}

void CpuCore::end(CpuBuffer& buffer) {
  if (buffer.faults_.seen.count != 0) {
    const FaultWord& word = buffer.faults_.seen;
    std::string message = std::string(to_string(word.kind)) + " on the device: " + std::to_string(word.value) +
                          (word.kind == FaultKind::bad_index ? " is outside of [0, " : " (bound ") +
                          std::to_string(word.limit) + "), " + std::to_string(word.count) + " in all";
    complete(buffer, launch_error(buffer, word.launch, std::move(message), std::to_string(word.value)));
    return;
  }
  complete(buffer, verify_banks());
}

void CpuCore::complete(CpuBuffer& buffer, Status status) {
  stop_ = true;
  std::vector<Arena> freed;
  {
    const std::lock_guard lock(mutex_);
    head_ = buffer.next_;
    if (head_ == nullptr) tail_ = nullptr;
    --live_.in_flight;
    if (live_.in_flight == 0) freed.swap(orphans_);
  }
  buffer.after_ = {};
  buffer.settle(std::move(status), true);
  buffer.release();
}

Status CpuCore::verify_banks() {
  if (!options_.checked) return {};
  const std::lock_guard lock(mutex_);
  for (const CpuBank* bank : banks_) PLUMB_TRY(bank->verify());
  return {};
}

}  // namespace plumb::device
