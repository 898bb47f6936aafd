#include "device/cpu/read_bandwidth.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <system_error>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "device/cpu/host_info.h"

namespace plumb::device {
namespace {

// Far larger than any last-level cache.
constexpr std::uint64_t kBlock = std::uint64_t{1} << 30;

// How a pass asks for what it will read: not at all; as the kernels of decode do; and further ahead, which some processors like better.
struct Asking {
  std::uint64_t ahead = 0;  // bytes
  bool first_level = false;
};
constexpr Asking kAskings[] = {{}, {std::uint64_t{4} << 10, true}, {std::uint64_t{16} << 10, false}};

// Four sums, so that no addition waits for the one before. Returned, so that the reads are not left out.
template <Asking A>
std::uint64_t read_all(const std::byte* from, std::uint64_t bytes) {
  typedef std::uint64_t Words __attribute__((vector_size(32)));
  Words sums[4] = {};
  for (std::uint64_t i = 0; i + 128 <= bytes; i += 128) {
    if constexpr (A.ahead > 0) {
      const std::uintptr_t ahead = reinterpret_cast<std::uintptr_t>(from) + i + A.ahead;  // beyond the end at the last: asking may
      __builtin_prefetch(reinterpret_cast<const void*>(ahead), 0, A.first_level ? 3 : 2);
      __builtin_prefetch(reinterpret_cast<const void*>(ahead + 64), 0, A.first_level ? 3 : 2);
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

constexpr std::uint64_t (*kPasses[])(const std::byte*, std::uint64_t) = {read_all<kAskings[0]>, read_all<kAskings[1]>, read_all<kAskings[2]>};

}  // namespace

Result<ReadBandwidth> ReadBandwidth::open(int threads) {
  PLUMB_CHECK(threads >= 1);
  const std::uint64_t bytes = std::min(kBlock, usable_memory() / 8) / 4096 * 4096;
  PLUMB_ASSIGN(Arena block, Arena::map(bytes));
  std::memset(block.base(), 1, bytes);
  return ReadBandwidth(threads, std::move(block), bytes / static_cast<std::uint64_t>(threads) / 128 * 128);
}

Result<double> ReadBandwidth::measure(double seconds) const {
  const std::uint64_t end = monotonic_ns() + static_cast<std::uint64_t>(seconds * 1e9);
  std::atomic<std::uint64_t> sum{0};
  double best = 0;
  std::size_t pass = 0;
  do {
    const auto read = kPasses[pass % std::size(kPasses)];
    const std::uint64_t start = monotonic_ns();
    std::vector<std::jthread> readers;
    try {
      for (int t = 0; t < threads_; ++t) {
        readers.emplace_back([&, t, read] { sum += read(block_.base() + static_cast<std::uint64_t>(t) * part_, part_); });
      }
    } catch (const std::system_error& error) {
      return fail(ErrorCode::internal, std::string("the system refused a thread: ") + error.what(), "read bandwidth", "threads",
                  std::to_string(threads_));
    }
    readers.clear();  // joins
    const double took = static_cast<double>(monotonic_ns() - start) * 1e-9;
    best = std::max(best, static_cast<double>(part_) * threads_ / took);
  } while (++pass < std::size(kPasses) || monotonic_ns() < end);
  PLUMB_CHECK(sum.load() != 0);  // every byte is 1
  return best;
}

}  // namespace plumb::device
