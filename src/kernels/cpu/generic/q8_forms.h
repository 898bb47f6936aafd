// The forms of the q8 products: a set's kernels for every packed weight format.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {
#define PLUMB_INSTANTIATE_Q8(F)                                                   \
  template void q8_matmul<WeightFormat::F>(const MatmulArgs&, device::Worker&);   \
  template void q8_moe_glu<WeightFormat::F>(const MoeGluArgs&, device::Worker&);  \
  template void q8_moe_down<WeightFormat::F>(const MoeDownArgs&, device::Worker&);
PLUMB_INSTANTIATE_Q8(q8_0_r8)
PLUMB_INSTANTIATE_Q8(q4_0_r8)
PLUMB_INSTANTIATE_Q8(mxfp4_r8)
}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
