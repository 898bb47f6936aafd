// The neon kernels that read weights. prelude.h says why the order of these includes matters.
// clang-format off
#if defined(__aarch64__)
#include "kernels/cpu/prelude.h"

#define PLUMB_CPU_ISA neon
#include "kernels/cpu/neon/simd.h"
#include "kernels/cpu/generic/scalar_codec.h"
#include "kernels/cpu/neon/decode.h"
#include "kernels/cpu/neon/neon_sums.h"
#include "kernels/cpu/neon/q8_block.h"
#include "kernels/cpu/generic/math.h"
#include "kernels/cpu/generic/dot.h"
#include "kernels/cpu/generic/product.h"
#include "kernels/cpu/generic/packed_rows.h"
#include "kernels/cpu/generic/q8_dot.h"
#include "kernels/cpu/generic/q8_product.h"
#include "kernels/cpu/generic/matmul.h"
#include "kernels/cpu/generic/moe.h"

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {
#define PLUMB_INSTANTIATE(F)                                                      \
  template void embed<WeightFormat::F>(const EmbedArgs&, device::Worker&);        \
  template void matmul<WeightFormat::F>(const MatmulArgs&, device::Worker&);      \
  template void moe_glu<WeightFormat::F>(const MoeGluArgs&, device::Worker&);     \
  template void moe_down<WeightFormat::F>(const MoeDownArgs&, device::Worker&);
PLUMB_INSTANTIATE(f32)
PLUMB_INSTANTIATE(f16)
PLUMB_INSTANTIATE(bf16)
PLUMB_INSTANTIATE(q8_0)
PLUMB_INSTANTIATE(q4_0)
PLUMB_INSTANTIATE(mxfp4)
PLUMB_INSTANTIATE(mxfp4_split)
PLUMB_INSTANTIATE(q4_1)
PLUMB_INSTANTIATE(iq4_nl)
PLUMB_INSTANTIATE(nvfp4)
PLUMB_INSTANTIATE(q4_k)
PLUMB_INSTANTIATE(q5_k)
PLUMB_INSTANTIATE(q6_k)
#define PLUMB_INSTANTIATE_Q8(F)                                                   \
  template void q8_matmul<WeightFormat::F>(const MatmulArgs&, device::Worker&);   \
  template void q8_moe_glu<WeightFormat::F>(const MoeGluArgs&, device::Worker&);  \
  template void q8_moe_down<WeightFormat::F>(const MoeDownArgs&, device::Worker&);
PLUMB_INSTANTIATE_Q8(q8_0_r8)
PLUMB_INSTANTIATE_Q8(q4_0_r8)
PLUMB_INSTANTIATE_Q8(mxfp4_r8)
}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
#endif
