// What it costs the workers of a queue to wait for each other, hundreds of times a token.
#pragma once

#include "base/status.h"

namespace plumb::device {

// Nanoseconds of one barrier (barrier.h) that `threads` threads pass without work between, awake: the best of several stretches, since
// whatever else runs on the machine can only add to it. `pin`: each on a core of its own, as CpuQueueOptions::pin.
// Errors: internal (no threads, or a core that cannot be had). REQUIRES: threads >= 1.
Result<double> measure_barrier(int threads, bool pin);

}  // namespace plumb::device
