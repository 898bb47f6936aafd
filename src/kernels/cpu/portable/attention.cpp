// The portable kernels over KV pages. prelude.h says why the order of these includes matters.
// clang-format off
#include "kernels/cpu/prelude.h"

#define PLUMB_CPU_ISA portable
#include "kernels/cpu/portable/simd.h"
#include "kernels/cpu/portable/kv_form.h"
#include "kernels/cpu/generic/math.h"
#include "kernels/cpu/generic/kv_pages.h"
#include "kernels/cpu/generic/attention_chunk.h"
#include "kernels/cpu/generic/attention.h"
#include "kernels/cpu/generic/attention_tiled.h"

#define PLUMB_KV_FORM(F)                                                     \
  template void attention_serial<F>(const AttentionArgs&, device::Worker&);  \
  template void attention_grouped<F>(const AttentionArgs&, device::Worker&); \
  template void attention_seqpar<F>(const AttentionArgs&, device::Worker&);  \
  template void attention_tiled<F>(const AttentionArgs&, device::Worker&);   \
  template void kv_append<F>(const KvAppendArgs&, device::Worker&)

namespace plumb::kernels::cpu::portable {
PLUMB_KV_FORM(KvFormat::f32);
PLUMB_KV_FORM(KvFormat::f16);
PLUMB_KV_FORM(KvFormat::bf16);
PLUMB_KV_FORM(KvFormat::q8);
}  // namespace plumb::kernels::cpu::portable
