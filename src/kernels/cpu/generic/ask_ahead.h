// Asking for memory before it is needed.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// Asks for the lines of [from, from + bytes), into the second-level cache: what is asked for is more than the first has room for beside what is in
// use. The memory need not be ours. (This and its callers are inlined by force: gcc 12 takes a function that only prefetches for one without
// effect, and drops its calls.)
[[gnu::always_inline]] inline void ask_for_lines(const void* from, std::int64_t bytes) {
  for (std::int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(static_cast<const std::byte*>(from) + i, 0, 2);
}

// Weights that one or two rows of activations pass over come from memory, mostly; with more, arithmetic hides more of the wait and
// asking costs more than it gives. A sum asks for what it will need this many bytes later. Far
// enough for a core's share of a server's memory (30 GB/s at 130 ns is 4 KiB in flight), near enough to still be in the second-level
// cache. What lies beyond a task's weights is mostly the worker's next task (TaskOrder, product.h).
inline constexpr std::int64_t kReadAhead = 16 * 1024;
inline constexpr int kReadAheadRows = 2;

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
