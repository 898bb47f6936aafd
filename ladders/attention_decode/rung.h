// What the rungs of this ladder share: rows of one sequence over a paged cache, one clock, one check. (ladders/attention_prefill takes it too.)
//
// Two geometries: 16 query heads over 4 KV heads of 64 (a small mixture), and 64 over 8 of 64 (gpt-oss). Spans of 128, 512, 2,048 and
// 32,768 keys in pages of 16 in shuffled order. One worker; seconds are of the thread's own time, so other load shows less. A span is
// walked again and again: 128 and 512 keys come from the caches, 32,768 mostly from memory.
//
// A rung is a kernel of the table and a form, checked against the double-precision reference. Its file says the idea, what was predicted
// before it ran, and what came out. The floor is arithmetic: a key costs 2 x head_dim multiply-adds a query head; at two vectors of eight a cycle that
// is 39 G a second on the EPYC of Zen 3 at 2.45 GHz where the predictions were made, 59 G on one of Zen 4 at 3.7. Or bytes: what one thread reads
// from memory in a second, measured beside. Outcomes on Zen 3 were taken while other work shared both processors: the steps between rungs are what
// to read of them. Those on Zen 4 are of two runs on a quiet machine.
#pragma once

#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/counter_rng.h"
#include "device/cpu/read_bandwidth.h"
#include "kernels/geometry/attention_plan.h"
#include "kernels/ref/kv_page.h"

namespace plumb::ladder {

struct Geometry {
  std::int32_t q_heads, kv_heads, head_dim;
};

// A pool as the engine has it: in huge pages where the system gives them.
struct Free {
  void operator()(std::byte* p) const { std::free(p); }
};
using Pool = std::unique_ptr<std::byte, Free>;
inline Pool make_pool(std::uint64_t bytes) {
  constexpr std::uint64_t kHuge = std::uint64_t{2} << 20;
  const std::uint64_t whole = (bytes + kHuge - 1) / kHuge * kHuge;
  Pool pool(static_cast<std::byte*>(std::aligned_alloc(kHuge, whole)));
  ::madvise(pool.get(), whole, MADV_HUGEPAGE);
  std::memset(pool.get(), 0, whole);
  return pool;
}

// Where the pages of the sequence lie in their pool: one after the other, as the engine gives them to a sequence that is alone, or anywhere.
enum class Pages : std::uint8_t { in_order, scattered };

struct Problem {
  Pool k, v;
  std::vector<float> q, out, sinks;
  std::vector<std::int32_t> table, positions, sequences;
  kernels::AttentionArgs args;

  // The last `rows` positions of `span`.
  Problem(kernels::KvFormat format, const Geometry& g, std::int32_t span, std::int32_t rows, Pages order = Pages::scattered)
      : positions(static_cast<std::size_t>(rows)), sequences(positions.size(), 0) {
    std::iota(positions.begin(), positions.end(), span - rows);
    using namespace kernels;
    const std::int32_t pages = (span + 15) / 16;
    table.resize(static_cast<std::size_t>(pages));
    std::iota(table.begin(), table.end(), 0);
    const Philox random{5};
    std::uint64_t next = 0;
    for (std::size_t i = table.size(); order == Pages::scattered && i > 1; --i) std::swap(table[i - 1], table[random.block(next++)[0] % i]);
    args.kv = {.k = {}, .v = {}, .table = host_ref<const std::int32_t>(table.data()), .format = format, .pages = pages, .page_rows = 16, .table_pages = pages,
               .sequences = 1, .kv_heads = g.kv_heads, .head_dim = g.head_dim};
    k = make_pool(kv_pool_bytes(args.kv));
    v = make_pool(kv_pool_bytes(args.kv));
    args.kv.k = host_ref(k.get());
    args.kv.v = host_ref(v.get());
    std::vector<float> row(static_cast<std::size_t>(g.head_dim));
    for (std::int32_t j = 0; j < span; ++j) {
      for (std::int32_t h = 0; h < g.kv_heads; ++h) {
        for (std::byte* pool : {k.get(), v.get()}) {
          for (float& x : row) x = random.uniform(next++) * 2 - 1;
          kv_store(args.kv, pool, page_of(args.kv, 0, j), h, j % 16, row.data());
        }
      }
    }
    const auto n = positions.size() * static_cast<std::size_t>(g.q_heads) * static_cast<std::size_t>(g.head_dim);
    for (std::size_t i = 0; i < n; ++i) q.push_back(random.uniform(next++) * 2 - 1);
    sinks.assign(static_cast<std::size_t>(g.q_heads), 0.5F);
    out.resize(n);
    args.out = host_ref(out.data());
    args.q = host_ref<const float>(q.data());
    args.sinks = host_ref<const float>(sinks.data());
    args.positions = host_ref<const std::int32_t>(positions.data());
    args.sequences = host_ref<const std::int32_t>(sequences.data());
    args.scale = 1.0F / std::sqrt(static_cast<float>(g.head_dim));
    args.q_heads = g.q_heads;
    args.rows = rows;
  }
  Problem(const Problem&) = delete;  // args point into it
};

inline double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// The kernel of a variant and a set, on one worker.
inline void run_kernel(kernels::AttentionVariant variant, kernels::Isa isa, const kernels::AttentionArgs& args) {
  static std::vector<std::byte> scratch(device::kWorkerScratchBytes + 64);
  auto* aligned = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(scratch.data()) + 63) / 64 * 64);
  const kernels::KernelEntry* entry = kernels::attention_kernel(variant, &args, device::Backend::cpu, isa);
  std::atomic<std::int64_t> ticket{0};
  device::FaultSink faults;
  device::TaskRuns runs(1);
  device::Worker worker(0, 1, {aligned, device::kWorkerScratchBytes}, &ticket, &runs, &faults, 0);
  reinterpret_cast<device::CpuKernelFn>(const_cast<void*>(entry->kernel.entry))(&args, worker);
}

inline bool agrees_with_reference(const char* name, Problem& p, kernels::AttentionVariant variant, kernels::Isa isa) {
  run_kernel(variant, isa, p.args);
  const std::vector<float> got = p.out;
  kernels::op<kernels::AttentionArgs>().reference(&p.args);
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!(std::fabs(got[i] - p.out[i]) <= 1e-5F)) {
      std::printf("%s is wrong: output %zu is %g, not %g\n", name, i, static_cast<double>(got[i]), static_cast<double>(p.out[i]));
      return false;
    }
  }
  return true;
}

// What a rung runs, and on what.
struct Rung {
  const char* name;
  kernels::AttentionVariant variant;
  kernels::Isa isa;
  kernels::KvFormat format;
};
struct Sizes {
  std::vector<Geometry> geometries;
  std::vector<std::int32_t> spans;
  std::int32_t rows;
};
inline const Sizes kDecode{{{16, 4, 64}, {64, 8, 64}}, {128, 512, 2048, 32768}, 1};

inline int run_rung(const Rung& rung, const Sizes& sizes = kDecode) {
  const auto isas = kernels::available_isas();
  if (std::find(isas.begin(), isas.end(), rung.isa) == isas.end()) {
    std::printf("%s: this machine lacks %s\n", rung.name, std::string(kernels::to_string(rung.isa)).c_str());
    return 0;
  }
  const auto reading = device::ReadBandwidth::open(1);
  if (reading.ok()) {
    const auto rate = reading->measure(0.2);
    if (rate.ok()) std::printf("one thread reads memory at %.1f GB/s\n", *rate * 1e-9);
  }
  std::printf("%s: %s KV\n", rung.name, kernels::to_string(rung.format));
  for (const Geometry& g : sizes.geometries) {
    for (const std::int32_t span : sizes.spans) {
      Problem p(rung.format, g, span, sizes.rows);
      run_kernel(rung.variant, rung.isa, p.args);
      if (span <= 512 && !agrees_with_reference(rung.name, p, rung.variant, rung.isa)) return 1;
      const int repeats = std::max(1, 16384 / (span * sizes.rows));
      double best = 1e9;
      for (int k = 0; k < 9; ++k) {
        const double start = thread_seconds();
        for (int i = 0; i < repeats; ++i) run_kernel(rung.variant, rung.isa, p.args);
        best = std::min(best, (thread_seconds() - start) / repeats);
      }
      double keys = 0;
      for (const std::int32_t position : p.positions) keys += position + 1;
      const double products = 2.0 * keys * g.q_heads * g.head_dim;
      const double bytes = 2.0 * static_cast<double>(kernels::kv_pool_bytes(p.args.kv));
      std::printf("  %2d/%d heads of %3d, span %5d, %2d rows  %10.1f us  %6.1f G products/s  %6.2f GB/s of KV\n", g.q_heads, g.kv_heads, g.head_dim, span,
                  sizes.rows, best * 1e6, products / best * 1e-9, bytes / best * 1e-9);
    }
  }
  return 0;
}

}  // namespace plumb::ladder
