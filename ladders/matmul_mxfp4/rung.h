// What the rungs of this ladder share: one problem, one clock, one check. (ladders/matmul_q8_0 takes it too.)
//
// The problem is rows of 1,024 activations times MXFP4 weights, as in the experts of a small mixture, or times Q8_0 weights, as in its attention and head. Three sizes of it: one row of
// activations with weights in the second-level cache (how fast the instructions are), one row with weights that no cache holds (decode),
// and 64 rows with weights in the cache (prefill). One thread; seconds are of the thread's own time, so other load shows less.
//
// A rung is a function that fills out[rows][outputs]. Its file says the idea, what was predicted before it ran, and what came out, with
// instructions counted per block of eight outputs by 32 weights (256 products) and row. Predictions are for a core that a rung has to
// itself, at 3.2 GHz (Zen 3: four vector instructions a cycle, two multiplications, two loads); the outcomes were taken on a virtual
// machine whose two processors look like the two threads of one core, with other work on the second: so everything is slower by a
// third, and the steps between rungs are what to read. Where a rung says Zen 4, that was a quiet machine at 3.7 GHz. The best of 15 passes.
#pragma once

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/blocks.h"
#include "base/counter_rng.h"
#include "kernels/table.h"

namespace plumb::ladder {

struct Problem {
  std::int32_t rows = 0;
  std::int32_t outputs = 0;
  std::int32_t cols = 1024;
  std::vector<float> in;                  // [rows][cols]
  std::vector<std::byte> stored;          // [outputs][cols / 32] blocks of 17 bytes (34 for Q8_0), the GGUF layout
  std::vector<std::byte> in_q8;           // [rows] q8 rows
  std::vector<std::byte> packed, packed_scales;
  kernels::WeightView weight;             // of `stored`
  kernels::WeightView weight_packed;      // of `packed`

  int blocks() const { return cols / 32; }
};

inline Problem make_problem(kernels::WeightFormat format, std::int32_t rows, std::int32_t outputs) {
  using namespace kernels;
  Problem p;
  p.rows = rows;
  p.outputs = outputs;
  const Philox random{3};
  std::uint64_t next = 0;
  p.in.resize(static_cast<std::size_t>(rows) * p.cols);
  for (float& x : p.in) x = random.uniform(next++) * 2 - 1;
  const auto block_bytes = static_cast<std::size_t>(traits(format).block_bytes);
  p.stored.resize(static_cast<std::size_t>(outputs) * static_cast<std::size_t>(p.blocks()) * block_bytes);
  for (std::byte& x : p.stored) x = static_cast<std::byte>(random.block(next++)[0]);
  for (std::size_t i = 0; i < p.stored.size(); i += block_bytes) {  // the scale: 2^-5, or 2^-7 in half precision
    p.stored[i] = format == WeightFormat::mxfp4 ? std::byte{122} : std::byte{0};
    if (format == WeightFormat::q8_0) p.stored[i + 1] = std::byte{0x20};
  }
  p.weight = {.data = host_ref<const std::byte>(p.stored.data()), .format = format, .rows = outputs, .cols = p.cols};
  p.weight.row_stride = static_cast<std::int64_t>(weight_row_bytes(p.weight));
  p.weight.expert_stride = p.weight.row_stride * outputs;
  p.weight_packed = packed_shape(p.weight);
  p.packed.resize(static_cast<std::size_t>(p.weight_packed.expert_stride));
  p.packed_scales.resize(static_cast<std::size_t>(p.weight_packed.scale_expert_stride));
  const PackArgs pack{.data = host_ref(p.packed.data()), .scales = host_ref(p.packed_scales.data()), .from = p.weight, .rows = 1};
  op<PackArgs>().reference(&pack);
  p.weight_packed.data = host_ref<const std::byte>(p.packed.data());
  p.weight_packed.scales = host_ref<const std::byte>(p.packed_scales.data());
  p.in_q8.resize(static_cast<std::size_t>(rows) * q8_row_bytes(p.cols));
  const QuantizeArgs quantize{.out = host_ref(p.in_q8.data()), .in = host_ref<const float>(p.in.data()), .cols = p.cols, .rows = rows};
  op<QuantizeArgs>().reference(&quantize);
  return p;
}

inline double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// Which activations a rung multiplies: it is checked against the exact product of those.
enum class Activations { f32, q8 };

// Runs the shipped kernel that the table chooses for the arguments and `isa`, on one worker.
inline void run_shipped(kernels::Isa isa, const kernels::MatmulArgs& args) {
  static std::vector<std::byte> scratch(device::kWorkerScratchBytes + 64);
  auto* aligned = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(scratch.data()) + 63) / 64 * 64);
  static const kernels::KernelEntry* entry =
      *kernels::select_kernel(kernels::op<kernels::MatmulArgs>(), &args, device::Backend::cpu, isa);
  std::atomic<std::int64_t> ticket{0};
  device::FaultSink faults;
  device::TaskRuns runs(1);
  device::Worker worker(0, 1, {aligned, device::kWorkerScratchBytes}, &ticket, &runs, &faults, 0);
  reinterpret_cast<device::CpuKernelFn>(const_cast<void*>(entry->kernel.entry))(&args, worker);
}

using Rung = void (*)(const Problem& p, float* out);

inline bool right(const Problem& p, Activations activations, const std::vector<float>& out) {
  using namespace kernels;
  std::vector<float> want(out.size());
  MatmulArgs args{.out = host_ref(want.data()), .weight = p.weight, .rows = p.rows};
  // The reference takes stored weights with f32 and packed ones with q8; packing changes no weight of this problem.
  if (activations == Activations::f32) {
    args.in = host_ref<const float>(p.in.data());
  } else {
    args.in_q8 = host_ref<const std::byte>(p.in_q8.data());
    args.weight = p.weight_packed;
  }
  op<MatmulArgs>().reference(&args);
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!(std::fabs(out[i] - want[i]) <= 1e-4F)) {
      std::printf("output %zu is %g, not %g\n", i, static_cast<double>(out[i]), static_cast<double>(want[i]));
      return false;
    }
  }
  return true;
}

inline int run_rung(const char* name, Activations activations, Rung rung, kernels::WeightFormat format = kernels::WeightFormat::mxfp4) {
  struct Size {
    const char* name;
    std::int32_t rows, outputs;
    int repeats;
  };
  // 128 outputs are 70 KiB of weights, 81,920 are 45 MiB.
  constexpr Size kSizes[] = {{"1 row, cache", 1, 128, 40}, {"1 row, memory", 1, 81920, 1}, {"64 rows, cache", 64, 128, 4}};
  for (const Size& size : kSizes) {
    const Problem p = make_problem(format, size.rows, size.outputs);
    std::vector<float> out(static_cast<std::size_t>(size.rows) * size.outputs);
    rung(p, out.data());
    if (size.outputs <= 128 && !right(p, activations, out)) {
      std::printf("%s is wrong\n", name);
      return 1;
    }
    double best = 1e9;
    const double first = thread_seconds();
    for (int k = 0; k < 15 && thread_seconds() - first < 2; ++k) {
      const double start = thread_seconds();
      for (int i = 0; i < size.repeats; ++i) rung(p, out.data());
      best = std::min(best, (thread_seconds() - start) / size.repeats);
    }
    const double products = static_cast<double>(size.rows) * size.outputs * p.cols;
    std::printf("%-16s %-16s %7.2f ns for 256 products %8.2f G products/s %7.2f GB/s of weights\n", name, size.name, best / products * 256e9,
                products / best * 1e-9, static_cast<double>(p.stored.size()) / best * 1e-9);
  }
  return 0;
}

// A rung that is a kernel of the table: what ships for `I`.
template <kernels::Isa I, Activations A>
int run_shipped_rung(const char* name, kernels::WeightFormat format = kernels::WeightFormat::mxfp4) {
  const auto isas = kernels::available_isas();
  if (std::find(isas.begin(), isas.end(), I) == isas.end()) {
    std::printf("%s: this machine lacks %s\n", name, std::string(kernels::to_string(I)).c_str());
    return 0;
  }
  const Rung rung = [](const Problem& p, float* out) {
    kernels::MatmulArgs args{.out = kernels::host_ref(out), .weight = A == Activations::q8 ? p.weight_packed : p.weight, .rows = p.rows};
    if (A == Activations::q8) {
      args.in_q8 = kernels::host_ref<const std::byte>(p.in_q8.data());
    } else {
      args.in = kernels::host_ref<const float>(p.in.data());
    }
    run_shipped(I, args);
  };
  return run_rung(name, A, rung, format);
}

}  // namespace plumb::ladder
