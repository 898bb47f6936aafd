// Asking for memory before it is needed.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

// Asks for the lines of [from, from + bytes), into the second-level cache: what is asked for is more than the first has room for beside what is in
// use. The memory need not be ours. (This and its callers are inlined by force: gcc 12 takes a function that only prefetches for one without
// effect, and drops its calls.)
[[gnu::always_inline]] inline void ask_for_lines(const void* from, std::int64_t bytes) {
  for (std::int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(static_cast<const std::byte*>(from) + i, 0, 2);
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
