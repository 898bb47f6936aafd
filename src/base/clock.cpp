#include "base/clock.h"

#include <chrono>

namespace plumb {

std::uint64_t monotonic_ns() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

}  // namespace plumb
