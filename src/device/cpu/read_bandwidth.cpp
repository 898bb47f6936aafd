#include "device/cpu/read_bandwidth.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "device/cpu/arena.h"
#include "device/cpu/host_info.h"

namespace plumb::device {
namespace {

// Far larger than any last-level cache.
constexpr std::uint64_t kBlock = std::uint64_t{1} << 30;

// How far ahead of their use the kernels of decode ask for weights.
constexpr std::uint64_t kAhead = std::uint64_t{16} << 10;

enum class Reading : std::uint8_t { plain, asking_ahead };

// Four sums, so that no addition waits for the one before. Returned, so that the reads are not left out.
template <Reading R>
std::uint64_t read_all(const std::byte* from, std::uint64_t bytes) {
  typedef std::uint64_t Words __attribute__((vector_size(32)));
  Words sums[4] = {};
  for (std::uint64_t i = 0; i + 128 <= bytes; i += 128) {
    if constexpr (R == Reading::asking_ahead) {
      const std::uintptr_t ahead = reinterpret_cast<std::uintptr_t>(from) + i + kAhead;  // beyond the end at the last: asking may
      __builtin_prefetch(reinterpret_cast<const void*>(ahead), 0, 2);
      __builtin_prefetch(reinterpret_cast<const void*>(ahead + 64), 0, 2);
    }
    for (std::uint64_t s = 0; s < 4; ++s) {
      Words words;
      std::memcpy(&words, from + i + 32 * s, sizeof words);
      sums[s] += words;
    }
  }
  const Words total = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  return total[0] + total[1] + total[2] + total[3];
}

}  // namespace

Result<double> measure_read_bandwidth(int threads, double seconds) {
  PLUMB_CHECK(threads >= 1);
  const std::uint64_t bytes = std::min(kBlock, usable_memory() / 8) / 4096 * 4096;
  PLUMB_ASSIGN(Arena block, Arena::map(bytes));
  std::memset(block.base(), 1, bytes);
  const std::uint64_t part = bytes / static_cast<std::uint64_t>(threads) / 128 * 128;
  const std::uint64_t end = monotonic_ns() + static_cast<std::uint64_t>(seconds * 1e9);
  std::atomic<std::uint64_t> sum{0};
  double best = 0;
  int pass = 0;
  do {
    const auto read = pass % 2 == 0 ? read_all<Reading::plain> : read_all<Reading::asking_ahead>;
    const std::uint64_t start = monotonic_ns();
    std::vector<std::jthread> readers;
    try {
      for (int t = 0; t < threads; ++t) {
        readers.emplace_back([&, t, read] { sum += read(block.base() + static_cast<std::uint64_t>(t) * part, part); });
      }
    } catch (const std::system_error& error) {
      return fail(ErrorCode::internal, std::string("the system refused a thread: ") + error.what(), "read bandwidth", "threads",
                  std::to_string(threads));
    }
    readers.clear();  // joins
    const double took = static_cast<double>(monotonic_ns() - start) * 1e-9;
    best = std::max(best, static_cast<double>(part) * threads / took);
  } while (++pass < 2 || monotonic_ns() < end);
  PLUMB_CHECK(sum.load() != 0);  // every byte is 1
  return best;
}

}  // namespace plumb::device
