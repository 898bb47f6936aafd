// The portable kernel of the gated delta rule. prelude.h says why the order of these includes matters.
// clang-format off
#include "kernels/cpu/prelude.h"

#define PLUMB_CPU_ISA portable
#include "kernels/cpu/portable/simd.h"
#include "kernels/cpu/generic/math.h"
#include "kernels/cpu/generic/gated_delta.h"
