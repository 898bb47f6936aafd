// The forms of attention: every variant for every form of keys and values.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {
#define PLUMB_KV_FORM(F)                                                         \
  template void attention_serial<F>(const AttentionArgs&, device::Worker&);      \
  template void attention_grouped<F>(const AttentionArgs&, device::Worker&);     \
  template void attention_seqpar<F>(const AttentionArgs&, device::Worker&);      \
  template void attention_seqpar_long<F>(const AttentionArgs&, device::Worker&); \
  template void attention_tiled<F>(const AttentionArgs&, device::Worker&);
PLUMB_KV_FORM(KvFormat::f32)
PLUMB_KV_FORM(KvFormat::f16)
PLUMB_KV_FORM(KvFormat::bf16)
PLUMB_KV_FORM(KvFormat::q8)
}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
