// The forms of the kernels that read weights: every format as stored, on the exact path.
#pragma once

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
}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
