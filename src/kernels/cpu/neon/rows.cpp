// The neon kernels of the small ops. prelude.h says why the order of these includes matters.
// clang-format off
#if defined(__aarch64__)
#include "kernels/cpu/prelude.h"

#define PLUMB_CPU_ISA neon
#include "kernels/cpu/neon/simd.h"
#include "kernels/cpu/generic/scalar_codec.h"
#include "kernels/cpu/neon/decode.h"
#include "kernels/cpu/generic/math.h"
#include "kernels/cpu/generic/rows.h"
#include "kernels/cpu/neon/neon_sums.h"
#include "kernels/cpu/neon/q8_block.h"
#include "kernels/cpu/generic/q8_rows.h"
#endif
