// What the rungs of this ladder share: decode by two workers, from memory.
//
// One row of q8 activations times MXFP4 weights packed by eight rows (weight.h), 1,024 columns; an op is 8,192 outputs (4.5 MB), and 90 ops, 400 MB
// in all, follow each other with a barrier between, so no cache holds what is read. A rung is the order in which tasks of 64 outputs are handed out,
// and the function that computes a task. Beside it the same walk that only reads. Seconds are of the wall clock, the median of nine walks: what
// counts is the part of the reading rate that a rung reaches, on a machine that nobody else uses.
//
// Outcomes: AMD EPYC (Zen 5, 2 virtual processors), 30 November 2026, three runs of each rung in turn; reading alone gave 44 to 56 GB/s.
#pragma once

#include <immintrin.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "base/blocks.h"
#include "base/counter_rng.h"
#include "device/cpu/task_runs.h"
#include "kernels/api/quantize.h"
#include "mxfp4_block.h"

namespace plumb::ladder {

using kernels::Q8Block;

inline constexpr int kBlocks = 32;               // of 32 columns
inline constexpr int kGroupBytes = 128 * kBlocks;  // eight rows
inline constexpr int kGroupScales = 8 * kBlocks;
inline constexpr int kTaskGroups = 8;
inline constexpr int kOpTasks = 128;
inline constexpr int kOps = 90;
inline constexpr int kWorkers = 2;

// Sums of some groups, those of a task: sums[8 * g + j] of row j of group g. Weights and scales go on behind them.
using TaskFn = void (*)(const std::byte* data, const std::byte* scales, const Q8Block* x, float* sums, int groups);
enum class Order { claimed, runs };
// Where the groups of a task lie: all together, or half of them in each half of the op's weights, which are then two matrices.
enum class Layout { together, apart };

struct Huge {
  std::byte* base = nullptr;
  std::size_t bytes;
  explicit Huge(std::size_t n) : bytes(n) {
    base = static_cast<std::byte*>(::mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ::madvise(base, n, MADV_HUGEPAGE);
  }
  ~Huge() { ::munmap(base, bytes); }
  Huge(const Huge&) = delete;
};

struct Problem {
  static constexpr std::size_t kGroups = std::size_t{kOps} * kOpTasks * kTaskGroups;
  Huge data{kGroups * kGroupBytes + (1 << 20)};
  Huge scales{kGroups * kGroupScales + (1 << 20)};
  std::vector<Q8Block> x = std::vector<Q8Block>(kBlocks);

  Problem() {
    const Philox random{7};
    for (std::size_t i = 0; i < data.bytes; i += 16) {
      const auto words = random.block(i / 16 % 65521);
      std::memcpy(data.base + i, words.data(), 16);
    }
    std::memset(scales.base, 121, scales.bytes);
    for (std::size_t b = 0; b < x.size(); ++b) {
      x[b].scale = 0.01F;
      int first = 0, second = 0;  // of every four codes, as Q8Block has them
      for (int k = 0; k < 32; ++k) {
        x[b].codes[k] = static_cast<std::int8_t>(random.block(b * 32 + static_cast<std::size_t>(k))[1] % 255 - 127);
        (k % 4 < 2 ? first : second) += x[b].codes[k];
      }
      x[b].sums[0] = static_cast<std::int16_t>(-first);
      x[b].sums[1] = static_cast<std::int16_t>(-second);
    }
  }
  const std::byte* data_of(std::int64_t group) const { return data.base + group * kGroupBytes; }
  const std::byte* scales_of(std::int64_t group) const { return scales.base + group * kGroupScales; }

  void run(TaskFn fn, Layout layout, int op, std::int64_t task, float* sums) const {
    const std::int64_t first = std::int64_t{op} * kOpTasks * kTaskGroups;
    if (layout == Layout::together) {
      const std::int64_t group = first + task * kTaskGroups;
      return fn(data_of(group), scales_of(group), x.data(), sums, kTaskGroups);
    }
    for (std::int64_t half = 0; half < 2; ++half) {
      const std::int64_t group = first + (half * kOpTasks + task) * (kTaskGroups / 2);
      fn(data_of(group), scales_of(group), x.data(), sums, kTaskGroups / 2);
    }
  }
};

// Seconds of one walk.
inline double walk(const Problem& p, Order order, TaskFn task, Layout layout) {
  std::vector<std::atomic<std::int64_t>> claimed(kOps);
  std::vector<std::atomic<int>> done(kOps);
  std::vector<std::unique_ptr<device::TaskRuns>> runs;
  for (int o = 0; o < kOps; ++o) runs.push_back(std::make_unique<device::TaskRuns>(kWorkers));
  std::atomic<int> ready{0};
  std::chrono::steady_clock::time_point begin;
  const auto work = [&](int worker) {
    float sums[8 * kTaskGroups];
    ++ready;
    while (ready.load() < kWorkers) _mm_pause();
    if (worker == 0) begin = std::chrono::steady_clock::now();
    for (int o = 0; o < kOps; ++o) {
      const auto o_at = static_cast<std::size_t>(o);
      const auto next = [&] { return order == Order::claimed ? claimed[o_at].fetch_add(1) : runs[o_at]->take(worker, kOpTasks); };
      for (std::int64_t t = next(); t >= 0 && t < kOpTasks; t = next()) p.run(task, layout, o, t, sums);
      ++done[o_at];
      while (done[o_at].load(std::memory_order_acquire) < kWorkers) _mm_pause();
    }
  };
  std::jthread other(work, 1);
  work(0);
  other.join();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

inline void read_only(const std::byte* data, const std::byte* scales, const Q8Block*, float* sums, int groups) {
  __m256i all = _mm256_setzero_si256();
  for (int i = 0; i < groups * kGroupBytes; i += 32) all = _mm256_xor_si256(all, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data + i)));
  for (int i = 0; i < groups * kGroupScales; i += 32) all = _mm256_xor_si256(all, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(scales + i)));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums), all);
}

// Row j of a group in double precision.
inline double exact(const std::byte* data, const std::byte* scales, const Q8Block* x, int j) {
  constexpr double kValues[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6};
  double sum = 0;
  for (int b = 0; b < kBlocks; ++b) {
    double block = 0;
    for (int k = 0; k < 16; ++k) {
      const auto byte = static_cast<unsigned>(data[128 * b + 32 * (k / 4) + 4 * j + k % 4]);
      block += kValues[byte & 15] * x[b].codes[k] + kValues[byte >> 4] * x[b].codes[k + 16];
    }
    sum += block * static_cast<double>(x[b].scale) * std::ldexp(1.0, static_cast<int>(scales[8 * b + j]) - 126);
  }
  return sum;
}

inline int run_rung(const char* name, Order order, TaskFn task, Layout layout = Layout::together) {
  const Problem p;
  float sums[8 * kTaskGroups];
  task(p.data.base, p.scales.base, p.x.data(), sums, kTaskGroups);
  for (int i = 0; i < 8 * kTaskGroups; ++i) {
    const double want = exact(p.data.base + i / 8 * kGroupBytes, p.scales.base + i / 8 * kGroupScales, p.x.data(), i % 8);
    if (!(std::fabs(static_cast<double>(sums[i]) - want) <= 1e-4 * (1 + std::fabs(want)))) {
      std::printf("%s is wrong: output %d is %g, not %g\n", name, i, static_cast<double>(sums[i]), want);
      return 1;
    }
  }
  std::vector<double> own, reading;
  for (int k = 0; k < 9; ++k) {
    own.push_back(walk(p, order, task, layout));
    reading.push_back(walk(p, Order::runs, read_only, Layout::together));
  }
  std::sort(own.begin(), own.end());
  std::sort(reading.begin(), reading.end());
  const double gigabytes = static_cast<double>(Problem::kGroups) * (kGroupBytes + kGroupScales) * 1e-9;
  std::printf("%-16s %6.1f GB/s (%.1f to %.1f) of %6.1f that reading alone reaches: %3.0f%%\n", name, gigabytes / own[4], gigabytes / own[8], gigabytes / own[0],
              gigabytes / reading[4], 100 * reading[4] / own[4]);
  return 0;
}

// A task, group after group, or two side by side; what lies kAhead bytes further on is asked for.
template <int kGroups, int kAhead>
inline void stream_task(const std::byte* data, const std::byte* scales, const Q8Block* x, float* sums, int groups) {
  for (int g = 0; g < groups; g += kGroups) {
    __m256 total[kGroups];
    for (__m256& t : total) t = _mm256_setzero_ps();
    for (int b = 0; b < kBlocks; ++b) {
#pragma GCC unroll 2
      for (int i = 0; i < kGroups; ++i) {
        const std::byte* group = data + (g + i) * kGroupBytes;
        if constexpr (kAhead > 0) {
          _mm_prefetch(reinterpret_cast<const char*>(group + 128 * b + kAhead), _MM_HINT_T1);
          _mm_prefetch(reinterpret_cast<const char*>(group + 128 * b + kAhead + 64), _MM_HINT_T1);
        }
        add_block(group + 128 * b, scales + (g + i) * kGroupScales + 8 * b, x[b], total[i]);
      }
    }
    for (int i = 0; i < kGroups; ++i) _mm256_storeu_ps(sums + 8 * (g + i), total[i]);
  }
}

// Group after group, as what ships: codes are asked for 4 KB ahead, and the scales of the next group while one begins.
inline void near_task(const std::byte* data, const std::byte* scales, const Q8Block* x, float* sums, int groups) {
  for (int g = 0; g < groups; ++g) {
    const std::byte* group = data + g * kGroupBytes;
    const std::byte* group_scales = scales + g * kGroupScales;
    __m256 total = _mm256_setzero_ps();
    for (int i = 0; i < kGroupScales; i += 64) _mm_prefetch(reinterpret_cast<const char*>(group_scales + kGroupScales + i), _MM_HINT_T0);
    for (int b = 0; b < kBlocks; ++b) {
      _mm_prefetch(reinterpret_cast<const char*>(group + 128 * b + 4096), _MM_HINT_T0);
      _mm_prefetch(reinterpret_cast<const char*>(group + 128 * b + 4096 + 64), _MM_HINT_T0);
      add_block(group + 128 * b, group_scales + 8 * b, x[b], total);
    }
    _mm256_storeu_ps(sums + 8 * g, total);
  }
}

}  // namespace plumb::ladder
