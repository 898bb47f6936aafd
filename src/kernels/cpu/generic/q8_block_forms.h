// q8_forms.h goes on: the packed formats with offsets, parts or a table of values. Sets with wide products leave them to avx2.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {
PLUMB_INSTANTIATE_Q8(iq4_nl_r8)
PLUMB_INSTANTIATE_Q8(q4_1_r8)
PLUMB_INSTANTIATE_Q8(nvfp4_r8)
PLUMB_INSTANTIATE_Q8(q4_k_r8)
PLUMB_INSTANTIATE_Q8(q5_k_r8)
PLUMB_INSTANTIATE_Q8(q6_k_r8)
}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
