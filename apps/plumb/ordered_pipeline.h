// Makes pieces on several threads and hands them over in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "plumb/status.h"

namespace plumb::app {

// Calls produce(i, buffer) for i in [0, count) on `threads` threads, and consume(i, bytes) on the calling thread in order of
// i. produce leaves its bytes in the buffer, which it may resize; at most 2 * threads + 1 buffers exist. The first error of
// consume ends the run and is returned. With one thread everything happens on the calling thread.
// Throws std::system_error when no thread can be started.
Status ordered_pipeline(std::uint64_t count, int threads,
                        const std::function<void(std::uint64_t, std::vector<std::byte>&)>& produce,
                        const std::function<Status(std::uint64_t, std::span<const std::byte>)>& consume);

}  // namespace plumb::app
