// What the rungs of this ladder share: one row of a long text, by several workers of a real queue.
//
// The four geometries that src/kernels/geometry/attention_plan.cpp has rows for, in pages of 16, in order or scattered. As in a model, layers
// follow each other and their keys do not come from a cache: there are as many as 512 MB hold (at most 256), and a launch for each. Times are of the
// queue's clock, from barrier to barrier; the median of the launches of seven walks, the rungs in turn.
//
// usage: ladder_attention_parts_<rung> [scattered] [FORM] [SET] [WORKERS]...     (default: in order; f16; the best set; 2, 4, 8 ... up to the processors)
//
// A rung is held to the bits of rung 1, and that at 4,500 keys to the reference. The floor is what `plumb devices` measures the memory to give, or
// arithmetic (attention_decode/rung.h), whichever is slower.
#pragma once

#include <thread>

#include "attention_decode/rung.h"
#include "device/cpu/cpu_queue.h"

namespace plumb::ladder {

inline constexpr Geometry kPartGeometries[] = {{8, 2, 64}, {16, 4, 64}, {64, 8, 64}, {32, 8, 128}};
inline constexpr std::int32_t kPartSpans[] = {512, 2048, 8192, 32768, 131072};
inline constexpr int kWalks = 7;

// The layers of a model that attend: one query for all, keys of their own.
class Layers {
 public:
  Layers(kernels::KvFormat format, const Geometry& g, std::int32_t span, Pages order) : first_(format, g, span, 1, order) {
    const std::uint64_t bytes = kernels::kv_pool_bytes(first_.args.kv);
    const std::uint64_t count = std::clamp<std::uint64_t>((std::uint64_t{512} << 20) / (2 * bytes), 1, 256);
    const std::int32_t places = static_cast<std::int32_t>(kernels::attention_slices(0, span));
    partials_.resize(kernels::attention_partial_bytes(places, g.q_heads, g.head_dim) / 4);
    for (std::uint64_t i = 0; i < count; ++i) {
      kernels::AttentionArgs args = first_.args;
      args.partials = kernels::host_ref(partials_.data());
      args.partial_places = places;
      if (i > 0) {
        for (auto [pool, ref] : {std::pair{first_.k.get(), &args.kv.k}, std::pair{first_.v.get(), &args.kv.v}}) {
          copies_.push_back(make_pool(bytes));
          std::memcpy(copies_.back().get(), pool, bytes);
          *ref = kernels::host_ref(copies_.back().get());
        }
      }
      args_.push_back(args);
    }
  }

  std::uint64_t bytes() const { return 2 * kernels::kv_pool_bytes(first_.args.kv); }
  const std::vector<float>& out() const { return first_.out; }

  // Seconds of each layer; empty when the queue failed.
  std::vector<double> walk(device::Queue& queue, kernels::AttentionVariant variant, kernels::Isa isa, std::int32_t parts) {
    std::fill(first_.out.begin(), first_.out.end(), 0.0F);
    auto buffer = queue.begin({.label = "walk", .timing = true});
    if (!buffer.ok()) return {};
    for (kernels::AttentionArgs& args : args_) {
      args.parts = parts;
      const kernels::KernelEntry* entry = kernels::attention_kernel(variant, &args, device::Backend::cpu, isa);
      const Status recorded = (*buffer)->launch({.kernel = &entry->kernel, .args = &args, .args_bytes = entry->op->args_bytes, .cost = {}, .tag = {}});
      if (!recorded.ok()) return {};
    }
    const device::Completion done = queue.submit(std::move(buffer).value());
    if (!done.wait().ok()) return {};
    std::vector<double> seconds;
    for (const device::LaunchRecord& record : done.records()) seconds.push_back(static_cast<double>(record.t1_ns - record.t0_ns) * 1e-9);
    return seconds;
  }

 private:
  Problem first_;
  std::vector<Pool> copies_;
  std::vector<float> partials_;
  std::vector<kernels::AttentionArgs> args_;
};

inline double median_of(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

// The rungs up to the last of `variants`, in turn.
inline int run_parts(const std::vector<kernels::AttentionVariant>& variants, int argc, char** argv) {
  std::vector<int> workers;
  kernels::Isa isa = kernels::best_isa();
  Pages order = Pages::in_order;
  kernels::KvFormat form = kernels::KvFormat::f16;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "scattered") {
      order = Pages::scattered;
    } else if (const auto named = kernels::parse_isa(argv[i]); named.ok()) {
      isa = *named;
    } else if (const auto other = kernels::parse_kv_format("form", argv[i]); other.ok()) {
      form = *other;
    } else {
      workers.push_back(std::atoi(argv[i]));
    }
  }
  if (workers.empty()) {
    for (int n = 2; n <= static_cast<int>(std::thread::hardware_concurrency()); n *= 2) workers.push_back(n);
  }
  for (const Geometry& g : kPartGeometries) {
    Problem checked(form, g, 4500, 1);
    if (!agrees_with_reference("rung 1", checked, variants[0], isa)) return 1;
    for (const std::int32_t span : kPartSpans) {
      Layers layers(form, g, span, order);
      for (const int n : workers) {
        const auto queue = device::open_cpu_queue({.threads = n});
        if (!queue.ok()) {
          std::printf("%d workers: %s\n", n, queue.error().to_string().c_str());
          return 1;
        }
        const int tasks = 2 * n;  // two for each worker, as the planner wants
        const int parts = std::max(1, (tasks + g.kv_heads - 1) / g.kv_heads);
        std::vector<std::vector<double>> seconds(variants.size());
        std::vector<float> wanted;
        for (int walk = 0; walk <= kWalks; ++walk) {
          for (std::size_t v = 0; v < variants.size(); ++v) {
            const std::vector<double> found = layers.walk(**queue, variants[v], isa, parts);
            if (found.empty()) return 1;
            if (walk > 0) seconds[v].insert(seconds[v].end(), found.begin(), found.end());
            if (wanted.empty()) wanted = layers.out();
            if (std::memcmp(wanted.data(), layers.out().data(), wanted.size() * 4) != 0) {
              std::printf("%s: other bits than the first rung\n", std::string(to_string(variants[v])).c_str());
              return 1;
            }
          }
        }
        std::printf("%2d/%d heads of %d, span %6d, %2d workers:", g.q_heads, g.kv_heads, g.head_dim, span, n);
        const double first = median_of(seconds[0]);
        for (std::size_t v = 0; v < variants.size(); ++v) {
          const double median = median_of(seconds[v]);
          std::printf("  %s %8.1f us %5.1f GB/s %4.2f", std::string(to_string(variants[v])).c_str(), median * 1e6, static_cast<double>(layers.bytes()) / median * 1e-9,
                      first / median);
        }
        std::printf("\n");
        std::fflush(stdout);
      }
    }
  }
  return 0;
}

}  // namespace plumb::ladder
