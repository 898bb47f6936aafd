#include "device/cpu/barrier_cost.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "device/cpu/barrier.h"
#include "device/cpu/pin.h"

namespace plumb::device {
namespace {

constexpr int kStretches = 25;
constexpr int kBarriers = 2000;  // of a stretch
// Long enough that a thread on its way never finds the others asleep.
constexpr std::uint32_t kPauseUs = 1000;

}  // namespace

Result<double> measure_barrier(int threads, bool pin) {
  PLUMB_CHECK(threads >= 1);
  Barrier barrier(threads, kPauseUs);
  double best = std::numeric_limits<double>::max();
  std::uint64_t start = 0;
  const auto pass = [&](int index) {
    SpinMemory memory;
    for (int stretch = 0; stretch < kStretches; ++stretch) {
      barrier.arrive(index, memory, [&] { start = monotonic_ns(); });
      for (int i = 1; i < kBarriers; ++i) barrier.arrive(index, memory, [] {});
      barrier.arrive(index, memory, [&] { best = std::min(best, static_cast<double>(monotonic_ns() - start) / kBarriers); });
    }
  };
  // Nobody starts before all are there: a thread that the system refuses would leave the others waiting for ever.
  std::mutex gate;
  bool go = false;
  Status status;
  std::vector<std::jthread> others;
  {
    const std::lock_guard closed(gate);
    try {
      for (int t = 0; t < threads; ++t) {
        others.emplace_back([&, t] {
          { const std::lock_guard open(gate); }
          if (go) pass(t);
        });
        if (pin && status.ok()) status = pin_thread(others.back().native_handle(), t);
      }
    } catch (const std::system_error& error) {
      status = fail(ErrorCode::internal, std::string("the system refused a thread: ") + error.what(), "barrier", "threads",
                    std::to_string(threads));
    }
    go = status.ok();
  }
  others.clear();  // joins
  if (!status.ok()) return std::move(status).error();
  return best;
}

}  // namespace plumb::device
