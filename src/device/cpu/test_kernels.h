// Small kernels and helpers for the tests of the device layer.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "device/cpu/cpu_kernel.h"
#include "device/cpu/cpu_queue.h"

namespace plumb::device::testing {

template <class Args, void (*F)(const Args&, Worker&)>
Kernel make_kernel(const char* name) {
  return {name, Backend::cpu, reinterpret_cast<const void*>(&cpu_entry<Args, F>)};
}

// out[i] = in[i] * factor + addend, split with share().
struct AffineArgs {
  float* out = nullptr;
  const float* in = nullptr;
  std::int64_t n = 0;
  float factor = 1;
  float addend = 0;
};
inline void affine(const AffineArgs& a, Worker& w) {
  const auto [lo, hi] = w.share(a.n, 16);
  for (std::int64_t i = lo; i < hi; ++i) a.out[i] = a.in[i] * a.factor + a.addend;
}
inline const Kernel kAffine = make_kernel<AffineArgs, affine>("f32_affine");

// out[row] = fixed-order sum of a row, rows handed out with claim().
struct RowSumArgs {
  float* out = nullptr;
  const float* in = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};
inline void row_sum(const RowSumArgs& a, Worker& w) {
  for (std::int64_t row = w.claim(); row < a.rows; row = w.claim()) {
    float sum = 0;
    for (std::int64_t i = 0; i < a.columns; ++i) sum += a.in[row * a.columns + i];
    a.out[row] = sum;
  }
}
inline const Kernel kRowSum = make_kernel<RowSumArgs, row_sum>("f32_row_sum");

// out[i] = in[index[i]], counting what is out of bounds.
struct PickArgs {
  float* out = nullptr;
  const float* in = nullptr;
  const std::int32_t* index = nullptr;
  std::int64_t n = 0;
  std::int64_t limit = 0;
};
inline void pick(const PickArgs& a, Worker& w) {
  const auto [lo, hi] = w.share(a.n);
  for (std::int64_t i = lo; i < hi; ++i) a.out[i] = a.in[w.index_in(a.index[i], a.limit)];
}
inline const Kernel kPick = make_kernel<PickArgs, pick>("f32_pick");

// out[0] = number of faults that earlier launches counted, as every worker sees it (the sampler's view).
struct SeenArgs {
  std::int32_t* out = nullptr;  // [workers]
};
inline void seen(const SeenArgs& a, Worker& w) { a.out[w.index()] = static_cast<std::int32_t>(w.fault().count); }
inline const Kernel kSeen = make_kernel<SeenArgs, seen>("seen");

inline void nothing(const SeenArgs&, Worker&) {}
inline const Kernel kNothing = make_kernel<SeenArgs, nothing>("nothing");

inline std::unique_ptr<CpuQueue> open(const CpuQueueOptions& options) {
  auto queue = open_cpu_queue(options);
  EXPECT_TRUE(queue.ok()) << (queue.ok() ? "" : queue.error().to_string());
  return std::move(queue).value();
}

inline std::unique_ptr<Bank> reserve(Queue& queue, const BankPlan& plan) {
  auto bank = queue.reserve(plan);
  EXPECT_TRUE(bank.ok()) << (bank.ok() ? "" : bank.error().to_string());
  return std::move(bank).value();
}

inline CommandBuffer begin(Queue& queue, const BeginOptions& options = {}) {
  auto buffer = queue.begin(options);
  EXPECT_TRUE(buffer.ok()) << (buffer.ok() ? "" : buffer.error().to_string());
  return std::move(buffer).value();
}

template <class Args>
Launch launch_of(const Kernel& kernel, const Args& args, LaunchTag tag = {.op = "test"}) {
  return {.kernel = &kernel, .args = &args, .args_bytes = sizeof args, .tag = tag};
}

inline BankPlan plan_of(std::initializer_list<BankRegion> regions) { return {.name = "test", .regions = regions}; }

}  // namespace plumb::device::testing
