// The avx2 kernels of the small ops. prelude.h says why the order of these includes matters.
// clang-format off
#if defined(__x86_64__)
#include "kernels/cpu/prelude.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#define PLUMB_CPU_ISA avx2
#include "kernels/cpu/avx2/simd.h"
#include "kernels/cpu/generic/math.h"
#include "kernels/cpu/generic/rows.h"
#include "kernels/cpu/avx2/q8_block.h"
#include "kernels/cpu/generic/q8_rows.h"

#pragma GCC pop_options
#endif
