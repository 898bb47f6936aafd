// The portable kernels over KV pages. prelude.h says why the order of these includes matters.
// clang-format off
#include "kernels/cpu/prelude.h"

#define PLUMB_CPU_ISA portable
#include "kernels/cpu/portable/simd.h"
#include "kernels/cpu/generic/scalar_codec.h"
#include "kernels/cpu/portable/decode.h"
#include "kernels/cpu/generic/math.h"
#include "kernels/cpu/generic/dot.h"
#include "kernels/cpu/generic/attention.h"
