#include "device/cpu/int8_rate.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/clock.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace plumb::device {
namespace {

constexpr std::int64_t kRounds = 200000;

// What one thread does in a pass, and how many products that is.
struct Pass {
  std::uint64_t (*run)(std::int64_t rounds) = nullptr;
  double products_per_round = 0;
};

#if defined(__x86_64__)
// Ten sums, so that no instruction waits for the one before. The empty asm statements keep the compiler from seeing that every
// round is alike. The result is returned, so that nothing is left out.
__attribute__((target("avx2"))) std::uint64_t run_avx2(std::int64_t rounds) {
  constexpr int kSums = 10;
  __m256i weights = _mm256_set1_epi8(1);
  __m256i codes = _mm256_set1_epi8(1);
  __m256i sums[kSums];
  for (auto& sum : sums) sum = _mm256_setzero_si256();
  for (std::int64_t i = 0; i < rounds; ++i) {
    __asm__ volatile("" : "+x"(weights), "+x"(codes));
#pragma GCC unroll 10
    for (int s = 0; s < kSums; ++s) {
      __m256i pairs = _mm256_maddubs_epi16(weights, codes);
      __asm__ volatile("" : "+x"(pairs));
      sums[s] = _mm256_add_epi16(sums[s], pairs);
    }
  }
  for (int s = 1; s < kSums; ++s) sums[0] = _mm256_add_epi16(sums[0], sums[s]);
  return static_cast<std::uint64_t>(_mm256_extract_epi64(sums[0], 0)) | 1;
}

__attribute__((target("avx512f,avx512vnni"))) std::uint64_t run_avx512_vnni(std::int64_t rounds) {
  constexpr int kSums = 12;
  __m512i weights = _mm512_set1_epi32(0x01010101);
  __m512i codes = weights;
  __m512i sums[kSums];
  for (auto& sum : sums) sum = _mm512_setzero_si512();
  for (std::int64_t i = 0; i < rounds; ++i) {
    __asm__ volatile("" : "+v"(weights), "+v"(codes));
#pragma GCC unroll 12
    for (int s = 0; s < kSums; ++s) sums[s] = _mm512_dpbusd_epi32(sums[s], weights, codes);
  }
  for (int s = 1; s < kSums; ++s) sums[0] = _mm512_add_epi32(sums[0], sums[s]);
  std::uint64_t words[8];
  std::memcpy(words, &sums[0], sizeof words);
  return words[0] | 1;
}

Pass best_pass() {
  if (__builtin_cpu_supports("avx512vnni")) return {run_avx512_vnni, 12 * 64};
  if (__builtin_cpu_supports("avx2")) return {run_avx2, 10 * 32};
  return {};
}
#else
Pass best_pass() { return {}; }
#endif

}  // namespace

Result<double> measure_int8_rate(int threads, double seconds) {
  PLUMB_CHECK(threads >= 1);
  const Pass pass = best_pass();
  if (pass.run == nullptr) return 0.0;
  const std::uint64_t end = monotonic_ns() + static_cast<std::uint64_t>(seconds * 1e9);
  std::atomic<std::uint64_t> used{0};
  double best = 0;
  do {
    const std::uint64_t start = monotonic_ns();
    std::vector<std::jthread> workers;
    try {
      for (int t = 0; t < threads; ++t) workers.emplace_back([&] { used += pass.run(kRounds); });
    } catch (const std::system_error& error) {
      return fail(ErrorCode::internal, std::string("the system refused a thread: ") + error.what(), "int8 rate", "threads", std::to_string(threads));
    }
    workers.clear();  // joins
    const double took = static_cast<double>(monotonic_ns() - start) * 1e-9;
    best = std::max(best, static_cast<double>(kRounds) * pass.products_per_round * threads / took);
  } while (monotonic_ns() < end);
  PLUMB_CHECK(used.load() != 0);
  return best;
}

}  // namespace plumb::device
