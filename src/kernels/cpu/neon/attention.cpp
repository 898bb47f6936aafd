// The neon kernels over KV pages. prelude.h says why the order of these includes matters.
// clang-format off
#if defined(__aarch64__)
#include "kernels/cpu/prelude.h"

#define PLUMB_CPU_ISA neon
#include "kernels/cpu/neon/simd.h"
#include "kernels/cpu/neon/kv_form.h"
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

namespace plumb::kernels::cpu::neon {
PLUMB_KV_FORM(KvFormat::f32);
PLUMB_KV_FORM(KvFormat::f16);
PLUMB_KV_FORM(KvFormat::bf16);
PLUMB_KV_FORM(KvFormat::q8);
}  // namespace plumb::kernels::cpu::neon
#endif
