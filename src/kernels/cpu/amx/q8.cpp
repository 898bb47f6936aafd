// The q8 products of amx; every other op is avx512's or avx2's. prelude.h says why the order of these includes matters.
// clang-format off
#if defined(__x86_64__)
#include "kernels/cpu/prelude.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,amx-tile,amx-int8")
#define PLUMB_CPU_ISA amx
#include "kernels/cpu/avx2/simd.h"
#include "kernels/cpu/avx2/decode.h"
#include "kernels/cpu/generic/math.h"
#include "kernels/cpu/generic/dot.h"
#include "kernels/cpu/generic/product.h"
#include "kernels/cpu/generic/packed_rows.h"
#include "kernels/cpu/avx512/wide_dot.h"
#include "kernels/cpu/amx/q8_dot.h"
#include "kernels/cpu/generic/q8_product.h"
#include "kernels/cpu/generic/matmul.h"
#include "kernels/cpu/generic/moe.h"

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {
#define PLUMB_INSTANTIATE_Q8(F)                                                   \
  template void q8_matmul<WeightFormat::F>(const MatmulArgs&, device::Worker&);   \
  template void q8_moe_glu<WeightFormat::F>(const MoeGluArgs&, device::Worker&);  \
  template void q8_moe_down<WeightFormat::F>(const MoeDownArgs&, device::Worker&);
PLUMB_INSTANTIATE_Q8(q8_0_r8)
PLUMB_INSTANTIATE_Q8(q4_0_r8)
PLUMB_INSTANTIATE_Q8(mxfp4_r8)
}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA

#pragma GCC pop_options
#endif
