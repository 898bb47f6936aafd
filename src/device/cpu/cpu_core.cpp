#include "device/cpu/cpu_core.h"

#include <algorithm>
#include <system_error>

#include "base/check.h"
#include "base/clock.h"
#include "device/cpu/pin.h"

namespace plumb::device {
namespace {

// Between launches workers wait for each other, which is short when every worker has a processor of its own. With fewer of them
// than workers pausing only keeps the others from arriving.
constexpr std::uint32_t kLaunchPauseUs = 50;
// Between buffers they wait for the host. Pausing pays when the host has a core beside theirs; else it needs one of them.
constexpr std::uint32_t kIdlePauseUs = 50;

}  // namespace

CpuCore::CpuCore(const CpuQueueOptions& options, int processors, DeviceInfo info)
    : options_(options), info_(std::move(info)), idle_pause_us_(info_.threads < processors ? kIdlePauseUs : 0),
      barrier_(info_.threads, info_.threads <= processors ? kLaunchPauseUs : 0), runs_(info_.threads) {}

CpuCore::~CpuCore() = default;

Status CpuCore::start() {
  auto scratch = Arena::map(static_cast<std::uint64_t>(info_.threads) * kWorkerScratchBytes);
  if (!scratch.ok()) return std::move(scratch).error();
  scratch_ = std::move(scratch).value();
  if (options_.inline_execution) return {};
  try {
    for (int i = 0; i < info_.threads; ++i) workers_.emplace_back([this, i] { work(i); });
  } catch (const std::system_error& error) {
    return fail(ErrorCode::internal,
                "the system refused worker thread " + std::to_string(workers_.size()) + " of " +
                    std::to_string(info_.threads) + ": " + error.what(),
                "cpu queue", "threads", std::to_string(info_.threads));
  }
  for (int i = 0; options_.pin && i < info_.threads; ++i) {
    PLUMB_TRY(pin_thread(workers_[static_cast<std::size_t>(i)].native_handle(), i, info_.threads));
  }
  return {};
}

void CpuCore::shut_down() {
  closing_.store(true);
  alarm_.advance();
  bell_.advance();
  if (options_.inline_execution) {
    const std::lock_guard running(run_mutex_);
    Context mine = context(0);
    while (CpuBuffer* buffer = next(mine)) execute(*buffer, mine);
  }
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

LiveCounts CpuCore::live() const {
  const std::lock_guard lock(mutex_);
  return live_;
}

QueueCounters CpuCore::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

Result<std::unique_ptr<Bank>> CpuCore::reserve(const BankPlan& plan) {
  const std::uint64_t bytes = plan.total_bytes(options_.checked);
  std::uint32_t first_id = 0;
  {
    const std::lock_guard lock(mutex_);
    if (lost_.load()) return lost_error();
    if (live_.encoders != 0) {
      return fail(ErrorCode::allocation_while_encoding,
                  std::to_string(bytes) + " bytes asked for while " + std::to_string(live_.encoders) +
                      " command buffers are being recorded; " + std::to_string(live_.bank_bytes) + " reserved in " +
                      std::to_string(live_.banks) + " banks",
                  "bank " + plan.name, "bytes", std::to_string(bytes));
    }
    const std::uint64_t limit = options_.memory_limit_bytes != 0 ? options_.memory_limit_bytes : info_.memory_bytes;
    PLUMB_TRY(plan.fits(options_.checked, live_.bank_bytes, live_.banks, limit));
    if (injector_.fires(FaultPoint::reserve)) {
      return fail(ErrorCode::out_of_memory, "injected: the system refused " + std::to_string(bytes) + " bytes",
                  "bank " + plan.name, "bytes", std::to_string(bytes));
    }
    // Taken before the mapping is made, so that two threads cannot both pass the check.
    ++live_.banks;
    live_.bank_bytes += bytes;
    first_id = next_id_;
    next_id_ += static_cast<std::uint32_t>(plan.regions.size());
  }
  auto arena = Arena::map(bytes);
  if (!arena.ok()) {
    const std::lock_guard lock(mutex_);
    --live_.banks;
    live_.bank_bytes -= bytes;
    Error error = std::move(arena).error();
    error.subject = "bank " + plan.name;
    return error;
  }
  auto bank = std::make_unique<CpuBank>(shared_from_this(), plan, std::move(arena).value(), first_id, options_.checked);
  const std::lock_guard lock(mutex_);
  banks_.push_back(bank.get());
  return std::unique_ptr<Bank>(std::move(bank));
}

void CpuCore::drop(CpuBank& bank) {
  const std::lock_guard lock(mutex_);
  std::erase(banks_, &bank);
  --live_.banks;
  live_.bank_bytes -= bank.bytes();
  if (live_.in_flight != 0) orphans_.push_back(bank.take_arena());
}

CpuBuffer* CpuCore::take_idle() {
  const std::lock_guard lock(mutex_);
  if (idle_ == nullptr) {
    buffers_.push_back(std::make_unique<CpuBuffer>());
    return buffers_.back().get();
  }
  CpuBuffer* buffer = idle_;
  idle_ = buffer->next_;
  return buffer;
}

Result<CommandBuffer> CpuCore::begin(const BeginOptions& options) {
  if (options.after) {
    const auto* before = dynamic_cast<const CpuBuffer*>(options.after.state());
    if (before == nullptr || before->core_.get() != this) {
      return fail(ErrorCode::invalid_argument, "a buffer can only follow one of its own queue", "command buffer", "after",
                  std::string(options.label));
    }
  }
  if (injector_.fires(FaultPoint::begin)) {
    return fail(ErrorCode::out_of_memory, "injected: no command buffer to be had", "cpu queue", "begin",
                std::string(options.label));
  }
  {
    const std::lock_guard lock(mutex_);
    if (lost_.load()) return lost_error();
    ++live_.encoders;
  }
  CpuBuffer* buffer = take_idle();
  buffer->open(shared_from_this(), options, options.one_by_one || injector_.armed(FaultPoint::non_finite));
  return CommandBuffer(RecorderPtr(buffer));
}

void CpuCore::abandon(CpuBuffer& buffer) {
  {
    const std::lock_guard lock(mutex_);
    --live_.encoders;
  }
  recycle(buffer);
}

void CpuCore::recycle(CpuBuffer& buffer) {
  buffer.after_ = {};
  // The buffer may hold the core's last count; the core goes only after the lock is gone.
  const std::shared_ptr<CpuCore> self = std::move(buffer.core_);
  const std::lock_guard lock(mutex_);
  buffer.next_ = idle_;
  idle_ = &buffer;
}

void CpuCore::plan_faults(CpuBuffer& buffer) {
  const auto launch_of = [&](FaultPoint point) -> std::int64_t {
    const auto hit = injector_.reach(point, buffer.launches_.size());
    return hit ? static_cast<std::int64_t>(*hit) : -1;
  };
  InjectedFaults& injected = buffer.injected_;
  injected.refused = injector_.fires(FaultPoint::submit);
  injected.hang = injector_.fires(FaultPoint::hang);
  injected.fail_launch = launch_of(FaultPoint::execute);
  if (const std::int64_t lost = launch_of(FaultPoint::device_lost); lost >= 0) {
    injected.fail_launch = lost;
    injected.lost = true;
  }
  injected.bad_index_launch = launch_of(FaultPoint::bad_index);
  injected.bad_index_row = injector_.row();
  injected.non_finite_launch = launch_of(FaultPoint::non_finite);
}

Completion CpuCore::submit(CommandBuffer&& buffer) {
  Recorder* recorder = std::move(buffer).release().release();
  auto* mine = dynamic_cast<CpuBuffer*>(recorder);
  if (mine != nullptr && mine->core_.get() == this) {
    plan_faults(*mine);
    const std::lock_guard lock(mutex_);
    --live_.encoders;
  } else {
    if (recorder != nullptr) Recorder::Abandon()(recorder);
    mine = take_idle();
    mine->open(shared_from_this(), {}, false);
    mine->recording_ = fail(ErrorCode::invalid_argument, "not a command buffer of this queue", "cpu queue", "submit");
  }
  enqueue(*mine);
  return Completion(mine);
}

void CpuCore::enqueue(CpuBuffer& buffer) {
  buffer.references_.store(2, std::memory_order_relaxed);  // the queue's and the caller's
  {
    const std::lock_guard lock(mutex_);
    ++live_.in_flight;
    ++counters_.submissions;
    counters_.launches += buffer.launches_.size();
    counters_.declared += buffer.declared_;
    (tail_ != nullptr ? tail_->next_ : head_) = &buffer;
    tail_ = &buffer;
  }
  bell_.advance();
}

bool CpuCore::release_next() {
  if (!options_.hold) return false;
  const std::lock_guard running(run_mutex_);
  CpuBuffer* buffer = nullptr;
  {
    const std::lock_guard lock(mutex_);
    buffer = head_;
  }
  if (buffer == nullptr) return false;
  inline_deadline_ns_ = options_.deadline_ms != 0 ? monotonic_ns() + options_.deadline_ms * 1000000 : 0;
  Context mine = context(0);
  execute(*buffer, mine);
  return true;
}

void CpuCore::wait_for(CpuBuffer& buffer) {
  {
    const std::lock_guard lock(mutex_);
    ++counters_.host_waits;
  }
  if (options_.inline_execution) {
    const std::lock_guard running(run_mutex_);
    inline_deadline_ns_ = options_.deadline_ms != 0 ? monotonic_ns() + options_.deadline_ms * 1000000 : 0;
    Context mine = context(0);
    while (!buffer.settled()) {
      CpuBuffer* head = next(mine);
      PLUMB_CHECK(head != nullptr);  // a submission that is not settled is pending
      execute(*head, mine);
    }
    return;
  }
  const std::uint64_t limit = options_.deadline_ms != 0 ? options_.deadline_ms * 1000000 : EventWord::kForever;
  // No pausing: the workers need the cores more than the host does.
  if (buffer.settled_.sleep_while(0, limit)) return;
  // A device that another wait gave up on is lost for this buffer too, whether or not a worker has got round to saying so.
  if (lost_.load() && buffer.settle(lost_error(), false)) return;
  // The status first: the workers stop as soon as the device is lost and would report that instead.
  if (buffer.settle(overdue_error(buffer), false)) {
    lose("a wait passed its deadline of " + std::to_string(options_.deadline_ms) + " ms");
  }
}

void CpuCore::lose(std::string why) {
  {
    const std::lock_guard lock(mutex_);
    if (lost_.load()) return;
    lost_why_ = std::move(why);
    lost_.store(true);
  }
  alarm_.advance();
}

}  // namespace plumb::device
