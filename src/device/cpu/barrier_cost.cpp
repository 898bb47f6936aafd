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

constexpr int kStretches = 100;
constexpr int kBarriers = 500;  // of a stretch
// Where others want the cores too a barrier can take milliseconds; then fewer stretches must do.
constexpr std::uint64_t kLongestNs = 300'000'000;
// Long enough that a thread on its way never finds the others asleep.
constexpr std::uint32_t kPauseUs = 1000;

}  // namespace

Result<double> measure_barrier(int threads, bool pin) {
  PLUMB_CHECK(threads >= 1);
  Barrier barrier(threads, kPauseUs);
  double best = std::numeric_limits<double>::max();
  // Written by the last to arrive, read by all behind that barrier.
  std::uint64_t start = 0;
  bool enough = false;
  const std::uint64_t end = monotonic_ns() + kLongestNs;
  const auto pass = [&](int index) {
    SpinMemory memory;
    for (int stretch = 1; !enough; ++stretch) {
      barrier.arrive(index, memory, [&] { start = monotonic_ns(); });
      for (int i = 1; i < kBarriers; ++i) barrier.arrive(index, memory, [] {});
      barrier.arrive(index, memory, [&] {
        const std::uint64_t now = monotonic_ns();
        best = std::min(best, static_cast<double>(now - start) / kBarriers);
        enough = stretch == kStretches || now > end;
      });
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
        if (pin && status.ok()) status = pin_thread(others.back().native_handle(), t, threads);
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
