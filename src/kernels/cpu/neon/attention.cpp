// The neon kernels over KV pages. prelude.h says why the order of these includes matters.
// clang-format off
#if defined(__aarch64__)
#include "kernels/cpu/prelude.h"

#define PLUMB_CPU_ISA neon
#include "kernels/cpu/neon/simd.h"
#include "kernels/cpu/generic/scalar_codec.h"
#include "kernels/cpu/neon/decode.h"
#include "kernels/cpu/generic/math.h"
#include "kernels/cpu/generic/dot.h"
#include "kernels/cpu/generic/attention.h"
#endif
