// The portable kernels of the small ops. prelude.h says why the order of these includes matters.
// clang-format off
#include "kernels/cpu/prelude.h"

#define PLUMB_CPU_ISA portable
#include "kernels/cpu/portable/simd.h"
#include "kernels/cpu/generic/math.h"
#include "kernels/cpu/generic/rows.h"
#include "kernels/cpu/portable/q8_block.h"
#include "kernels/cpu/generic/q8_rows.h"
