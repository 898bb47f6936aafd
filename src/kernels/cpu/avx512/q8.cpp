// The q8 products of avx512; every other op is avx2's. prelude.h says why the order of these includes matters.
// clang-format off
#if defined(__x86_64__)
#include "kernels/cpu/prelude.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")
#define PLUMB_CPU_ISA avx512
#include "kernels/cpu/avx2/simd.h"
#include "kernels/cpu/avx2/decode.h"
#include "kernels/cpu/generic/math.h"
#include "kernels/cpu/generic/ask_ahead.h"
#include "kernels/cpu/generic/dot.h"
#include "kernels/cpu/generic/product.h"
#include "kernels/cpu/generic/packed_rows.h"
#include "kernels/cpu/avx512/vnni.h"
#include "kernels/cpu/avx_vnni/q8_block.h"
#include "kernels/cpu/generic/q8_group.h"
#include "kernels/cpu/avx512/wide_dot.h"
#include "kernels/cpu/avx512/q8_dot.h"
#include "kernels/cpu/generic/q8_product.h"
#include "kernels/cpu/generic/matmul.h"
#include "kernels/cpu/generic/moe.h"
#include "kernels/cpu/generic/q8_forms.h"

#pragma GCC pop_options
#endif
