// What the machine's memory gives to threads that do nothing but read: the ceiling of decode.
#pragma once

#include "base/status.h"

namespace plumb::device {

// Bytes per second at which `threads` threads read a block of memory that no cache holds, each its own part, the best of
// several passes over about `seconds`. Passes read plainly and asking for memory ahead, in turn: which is faster differs from one
// processor to the next, and the faster one is the ceiling. The block (1 GiB, or less on a small machine) is mapped for the time of the call.
// Errors: out_of_memory; internal (no threads). REQUIRES: threads >= 1.
Result<double> measure_read_bandwidth(int threads, double seconds);

}  // namespace plumb::device
