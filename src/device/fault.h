// Faults a device can have, and the switch that makes them happen on purpose.
//
// Every point where a real device can fail is a FaultPoint. Tests and `plumb faults --inject` arm a point; the device then
// fails there exactly once, in the way the real failure would look to its caller. An injector nobody armed costs one load.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace plumb::device {

enum class FaultPoint : std::uint8_t {
  reserve,      // Queue::reserve finds no memory
  begin,        // no command buffer can be had
  submit,       // the device refuses the buffer; nothing of it ran
  execute,      // a launch fails in the middle of the buffer; what ran before it ran
  device_lost,  // as execute, and every later submission fails too
  bad_index,    // a launch reads an index outside its bound
  non_finite,   // a launch leaves a NaN in its output
  hang,         // the buffer never completes until the queue is shut down or its deadline passes
  count_,
};

std::string_view to_string(FaultPoint point);

// Counts down at each point. Thread rule: any thread.
class FaultInjector {
 public:
  // The `nth` time from now (1 = the next) that the point is reached, it fails. 0 disarms.
  void arm(FaultPoint point, std::uint64_t nth) { countdown_[static_cast<std::size_t>(point)].store(nth); }

  // True exactly when the armed count runs out.
  bool fires(FaultPoint point) {
    auto& count = countdown_[static_cast<std::size_t>(point)];
    if (count.load(std::memory_order_relaxed) == 0) return false;
    std::uint64_t now = count.load();
    while (now != 0 && !count.compare_exchange_weak(now, now - 1)) {
    }
    return now == 1;
  }

 private:
  std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(FaultPoint::count_)> countdown_{};
};

// The first bad thing a step's launches saw. Kernels clamp an index that came from outside and count it here; a non-zero
// count fails the step. The sampler reads the word on the device, so a faulted step and all its chained successors emit
// kInvalidToken instead of a token.
struct FaultWord {
  std::uint32_t count = 0;   // bad indices and non-finite values seen
  std::int32_t launch = -1;  // which launch of the command buffer saw the first
  std::int64_t value = 0;    // the offending index (or row)
  std::int64_t limit = 0;    // its bound
};

}  // namespace plumb::device
