// The CPU kernels, one namespace for each instruction set with the same names in it. What each computes is its op.
//
// Bodies are in generic/, written once over the 8-lane vector of <isa>/simd.h and the weight decoders of <isa>/decode.h.
// Thread rule of all: called by every worker of a queue at once (device/cpu/cpu_kernel.h).
#pragma once

#include "device/cpu/cpu_kernel.h"
#include "kernels/api/ops.h"

// What a set has that only multiplies bytes better than the one below it.
#define PLUMB_CPU_Q8_KERNELS(isa)                                                       \
  namespace plumb::kernels::cpu::isa {                                                  \
  template <WeightFormat F> void q8_matmul(const MatmulArgs& a, device::Worker& w);     \
  template <WeightFormat F> void q8_moe_glu(const MoeGluArgs& a, device::Worker& w);    \
  template <WeightFormat F> void q8_moe_down(const MoeDownArgs& a, device::Worker& w);  \
  }

// What a set has whose vectors attention gains from.
#define PLUMB_CPU_ATTENTION_KERNELS(isa)                                                        \
  namespace plumb::kernels::cpu::isa {                                                          \
  template <KvFormat F> void attention_serial(const AttentionArgs& a, device::Worker& w);       \
  template <KvFormat F> void attention_grouped(const AttentionArgs& a, device::Worker& w);      \
  template <KvFormat F> void attention_seqpar(const AttentionArgs& a, device::Worker& w);       \
  template <KvFormat F> void attention_seqpar_long(const AttentionArgs& a, device::Worker& w);  \
  template <KvFormat F> void attention_tiled(const AttentionArgs& a, device::Worker& w);        \
  }

// A set for every op.
#define PLUMB_CPU_KERNELS(isa)                                                      \
  PLUMB_CPU_Q8_KERNELS(isa)                                                         \
  PLUMB_CPU_ATTENTION_KERNELS(isa)                                                  \
  namespace plumb::kernels::cpu::isa {                                              \
  template <WeightFormat F> void embed(const EmbedArgs& a, device::Worker& w);      \
  template <WeightFormat F> void matmul(const MatmulArgs& a, device::Worker& w);    \
  template <WeightFormat F> void moe_glu(const MoeGluArgs& a, device::Worker& w);   \
  template <WeightFormat F> void moe_down(const MoeDownArgs& a, device::Worker& w); \
  void advance(const AdvanceArgs& a, device::Worker& w);                            \
  void digest(const DigestArgs& a, device::Worker& w);                              \
  void edit_logits(const EditLogitsArgs& a, device::Worker& w);                     \
  void gated_delta(const GatedDeltaArgs& a, device::Worker& w);                     \
  void gather(const GatherArgs& a, device::Worker& w);                              \
  void glu(const GluArgs& a, device::Worker& w);                                    \
  template <KvFormat F> void kv_append(const KvAppendArgs& a, device::Worker& w);   \
  void mask_logits(const MaskLogitsArgs& a, device::Worker& w);                     \
  void moe_combine(const MoeCombineArgs& a, device::Worker& w);                     \
  void moe_group(const MoeGroupArgs& a, device::Worker& w);                         \
  void pack(const PackArgs& a, device::Worker& w);                                  \
  void quantize(const QuantizeArgs& a, device::Worker& w);                          \
  void rms_norm(const RmsNormArgs& a, device::Worker& w);                           \
  void rope(const RopeArgs& a, device::Worker& w);                                  \
  void rope_table(const RopeTableArgs& a, device::Worker& w);                       \
  void route(const RouteArgs& a, device::Worker& w);                                \
  void sample(const SampleArgs& a, device::Worker& w);                              \
  }

PLUMB_CPU_KERNELS(portable)
#if defined(__x86_64__)
#define PLUMB_HAS_X86 1
PLUMB_CPU_KERNELS(avx2)
PLUMB_CPU_Q8_KERNELS(avx_vnni)
PLUMB_CPU_Q8_KERNELS(avx512)
PLUMB_CPU_ATTENTION_KERNELS(avx512)
PLUMB_CPU_Q8_KERNELS(amx)
#elif defined(__aarch64__)
#define PLUMB_HAS_NEON 1
PLUMB_CPU_KERNELS(neon)
PLUMB_CPU_Q8_KERNELS(dotprod)
PLUMB_CPU_Q8_KERNELS(i8mm)
#endif

#undef PLUMB_CPU_KERNELS
#undef PLUMB_CPU_Q8_KERNELS
#undef PLUMB_CPU_ATTENTION_KERNELS
