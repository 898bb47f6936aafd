// Faults a device can have, and the switch that makes them happen on purpose.
//
// Every point where a real device can fail is a FaultPoint. Tests and `plumb faults --inject` arm a point; the device then
// fails there exactly once, in the way the real failure would look to its caller. An injector nobody armed costs a few loads a
// submission.
//
// Points that belong to launches or to a whole buffer are counted when the buffer is submitted, not when it runs: arming a
// point after submit() returns touches only later buffers, so a test never races with the device.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
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
  non_finite,   // a launch leaves a NaN in its first f32 output; without an operand list: it counts one, as a kernel would
  hang,         // the buffer never completes until its deadline passes or the queue is shut down
  count_,
};

std::string_view to_string(FaultPoint point);

// Counts down at each point. Thread rule: any thread.
class FaultInjector {
 public:
  // The `nth` time from now (1 = the next) that the point is reached, it fails. 0 disarms. `row`: whose fault a bad_index is
  // said to be.
  void arm(FaultPoint point, std::uint64_t nth, std::int32_t row = -1) {
    row_.store(row, std::memory_order_relaxed);
    countdown_[static_cast<std::size_t>(point)].store(nth);
  }
  std::int32_t row() const { return row_.load(std::memory_order_relaxed); }

  bool armed(FaultPoint point) const {
    return countdown_[static_cast<std::size_t>(point)].load(std::memory_order_relaxed) != 0;
  }

  // The point is reached `times` times. Which of them (0 = the first) is the one that fails, if the armed count runs out
  // among them.
  std::optional<std::uint64_t> reach(FaultPoint point, std::uint64_t times) {
    auto& count = countdown_[static_cast<std::size_t>(point)];
    std::uint64_t left = count.load(std::memory_order_relaxed);
    while (left != 0 && !count.compare_exchange_weak(left, left > times ? left - times : 0)) {
    }
    if (left == 0 || left > times) return std::nullopt;
    return left - 1;
  }

  // The point is reached once: true when this is the time that fails.
  bool fires(FaultPoint point) { return reach(point, 1).has_value(); }

 private:
  std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(FaultPoint::count_)> countdown_{};
  std::atomic<std::int32_t> row_{-1};
};

enum class FaultKind : std::uint8_t { bad_index, non_finite, short_reservation };

std::string_view to_string(FaultKind kind);

// The first bad thing a step's launches saw. Kernels clamp an index that came from outside and count it here; a non-zero
// count fails the step. The sampler reads the word on the device, so a faulted step and all its chained successors emit
// kInvalidToken instead of a token.
struct FaultWord {
  std::uint32_t count = 0;   // bad indices, non-finite values and short reservations seen
  std::int32_t launch = -1;  // which kernel launch of the command buffer saw the first
  FaultKind kind = FaultKind::bad_index;
  std::int64_t value = 0;    // the offending index (or row); the smallest one when that launch saw several
  std::int64_t limit = 0;    // its bound
  std::int32_t row = -1;     // the row of the launch that it belongs to, where the kernel knows; -1: none in particular
};

}  // namespace plumb::device
