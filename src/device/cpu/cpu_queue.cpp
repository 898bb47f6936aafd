#include "device/cpu/cpu_queue.h"

#include "device/cpu/cpu_core.h"
#include "device/cpu/cpu_features.h"
#include "device/cpu/host_info.h"

namespace plumb::device {
namespace {

class OpenCpuQueue final : public CpuQueue {
 public:
  explicit OpenCpuQueue(std::shared_ptr<CpuCore> core) : core_(std::move(core)) {}
  ~OpenCpuQueue() override { core_->shut_down(); }

  const DeviceInfo& info() const override { return core_->info(); }
  bool checked() const override { return core_->checked(); }
  Result<std::unique_ptr<Bank>> reserve(const BankPlan& plan) override { return core_->reserve(plan); }
  Result<CommandBuffer> begin(const BeginOptions& options) override { return core_->begin(options); }
  Completion submit(CommandBuffer&& buffer) override { return core_->submit(std::move(buffer)); }
  LiveCounts live() const override { return core_->live(); }
  QueueCounters counters() const override { return core_->counters(); }
  FaultInjector& faults() override { return core_->faults(); }
  bool release_next() override { return core_->release_next(); }

 private:
  std::shared_ptr<CpuCore> core_;
};

}  // namespace

Result<std::unique_ptr<CpuQueue>> open_cpu_queue(const CpuQueueOptions& options) {
  if (options.threads < 0 || options.threads > kMaxCpuThreads) {
    return fail(ErrorCode::invalid_argument, "must be 0 (all cores) to " + std::to_string(kMaxCpuThreads), "cpu queue",
                "threads", std::to_string(options.threads));
  }
  if (options.hold && !options.inline_execution) {
    return fail(ErrorCode::invalid_argument, "needs inline_execution", "cpu queue", "hold", "true");
  }
  if (options.pin && options.inline_execution) {
    return fail(ErrorCode::invalid_argument, "there is no worker to pin with inline_execution", "cpu queue", "pin", "true");
  }
  int threads = options.threads != 0 ? options.threads : std::min(usable_cores(), kMaxCpuThreads);
  if (options.inline_execution) threads = 1;
  DeviceInfo info;
  info.backend = Backend::cpu;
  info.name = cpu_name();
  info.isa = to_string(cpu_features());
  info.threads = threads;
  info.memory_bytes = usable_memory();
  auto core = std::make_shared<CpuCore>(options, usable_processors(), std::move(info));
  // From here on the queue's destructor ends the workers that did start.
  auto queue = std::make_unique<OpenCpuQueue>(core);
  PLUMB_TRY(core->start());
  return std::unique_ptr<CpuQueue>(std::move(queue));
}

}  // namespace plumb::device
