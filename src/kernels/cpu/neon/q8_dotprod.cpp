// The q8 products of dotprod; every other op is neon's. prelude.h says why the order of these includes matters.
// clang-format off
#if defined(__aarch64__)
#include "kernels/cpu/prelude.h"

#pragma GCC push_options
#pragma GCC target("arch=armv8.2-a+dotprod")
#define PLUMB_CPU_ISA dotprod
#include "kernels/cpu/neon/simd.h"
#include "kernels/cpu/generic/scalar_codec.h"
#include "kernels/cpu/neon/decode.h"
#include "kernels/cpu/neon/dotprod_row.h"
#include "kernels/cpu/neon/dotprod_sums.h"
#include "kernels/cpu/neon/q8_block.h"
#include "kernels/cpu/neon/q8_super_block.h"
#include "kernels/cpu/generic/math.h"
#include "kernels/cpu/generic/ask_ahead.h"
#include "kernels/cpu/generic/dot.h"
#include "kernels/cpu/generic/product.h"
#include "kernels/cpu/generic/packed_rows.h"
#include "kernels/cpu/generic/q8_group.h"
#include "kernels/cpu/generic/q8_dot.h"
#include "kernels/cpu/generic/q8_product.h"
#include "kernels/cpu/generic/matmul.h"
#include "kernels/cpu/generic/moe.h"
#include "kernels/cpu/generic/q8_forms.h"
#include "kernels/cpu/generic/q8_block_forms.h"

#pragma GCC pop_options
#endif
