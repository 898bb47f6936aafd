// Asking for memory before it is needed.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// Asks for the lines of [from, from + bytes), into the cache of the first or the second level. The memory need not be ours. (This and its callers are inlined by force: gcc 12 takes a function that only prefetches for one without
// effect, and drops its calls.)
template <int Level>
[[gnu::always_inline]] inline void ask_for_lines(const void* from, std::int64_t bytes) {
  for (std::int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(static_cast<const std::byte*>(from) + i, 0, Level == 1 ? 3 : 2);
}

// Weights that one or two rows of activations pass over come from memory, mostly; with more, arithmetic hides more of the wait and
// asking costs more than it gives. A sum asks for what it will need this many bytes later: enough for a core's share of a server's memory
// (30 GB/s at 130 ns is 4 KiB in flight), and little enough to lie in the first-level cache until it is used. What lies beyond a task's
// weights is mostly the worker's next task (TaskOrder, product.h). Asked into the second level, however far ahead, one stream of Q8_0
// reads at two thirds to nine tenths of this rate on a Zen 4; on a Xeon the two differ by 3% at most, either way (docs/BENCHMARKS.md).
inline constexpr std::int64_t kReadAhead = 4 * 1024;
inline constexpr int kReadAheadRows = 2;

// Where several rows of weights are walked side by side (dot.h), what is asked for lies longer before it is used: into the second level.
inline constexpr std::int64_t kFarAhead = 16 * 1024;

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
