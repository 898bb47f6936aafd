// The list of kernels. Adding one is its file in cpu/ and a line here.
#include "kernels/table.h"

#include <string>

#include "kernels/cpu/kernels.h"

namespace plumb::kernels {
namespace {

using device::Backend;

const WeightView& weight_of(const EmbedArgs& a) { return a.table; }
const WeightView& weight_of(const MatmulArgs& a) { return a.weight; }
const WeightView& weight_of(const MoeGluArgs& a) { return a.gate; }
const WeightView& weight_of(const MoeDownArgs& a) { return a.down; }

template <class Args, KvFormat F>
bool has_kv_format(const void* args) {
  return static_cast<const Args*>(args)->kv.format == F;
}
template <class Args, WeightFormat F>
bool has_format(const void* args) {
  return weight_of(*static_cast<const Args*>(args)).format == F;
}
bool any(const void*) { return true; }

template <class Args, void (*F)(const Args&, device::Worker&)>
KernelEntry entry(const char* name, Isa isa, bool (*accepts)(const void*)) {
  return {&op<Args>(), {name, Backend::cpu, reinterpret_cast<const void*>(&device::cpu_entry<Args, F>)}, isa, accepts};
}

#define KERNEL(isa, op, Args) entry<Args, cpu::isa::op>("f32_" #op, Isa::isa, any)
#define WEIGHT_KERNEL(isa, op, Args, format)                                             \
  entry<Args, cpu::isa::op<WeightFormat::format>>("f32_" #format "w_" #op, Isa::isa,     \
                                                  has_format<Args, WeightFormat::format>)
#define WEIGHT_KERNELS(isa, op, Args)                                                                             \
  WEIGHT_KERNEL(isa, op, Args, f32), WEIGHT_KERNEL(isa, op, Args, f16), WEIGHT_KERNEL(isa, op, Args, bf16),       \
      WEIGHT_KERNEL(isa, op, Args, q8_0), WEIGHT_KERNEL(isa, op, Args, q4_0), WEIGHT_KERNEL(isa, op, Args, mxfp4), \
      WEIGHT_KERNEL(isa, op, Args, mxfp4_split), WEIGHT_KERNEL(isa, op, Args, q4_1),                              \
      WEIGHT_KERNEL(isa, op, Args, iq4_nl), WEIGHT_KERNEL(isa, op, Args, nvfp4), WEIGHT_KERNEL(isa, op, Args, q4_k), \
      WEIGHT_KERNEL(isa, op, Args, q5_k), WEIGHT_KERNEL(isa, op, Args, q6_k)
// Packed weights are multiplied by q8 activations and by nothing else (check() of the ops), so the format decides alone.
#define Q8_KERNEL(isa, op, Args, format)                                                  \
  entry<Args, cpu::isa::q8_##op<WeightFormat::format>>("q8_" #format "w_" #op, Isa::isa,  \
                                                       has_format<Args, WeightFormat::format>)
#define Q8_KERNELS(isa, op, Args) \
  Q8_KERNEL(isa, op, Args, q8_0_r8), Q8_KERNEL(isa, op, Args, q4_0_r8), Q8_KERNEL(isa, op, Args, mxfp4_r8)
// The formats that the x86 sets with wide products leave to avx2.
#define Q8_BLOCK_KERNELS(isa, op, Args)                                                                                \
  Q8_KERNEL(isa, op, Args, iq4_nl_r8), Q8_KERNEL(isa, op, Args, q4_1_r8), Q8_KERNEL(isa, op, Args, nvfp4_r8),          \
      Q8_KERNEL(isa, op, Args, q4_k_r8), Q8_KERNEL(isa, op, Args, q5_k_r8), Q8_KERNEL(isa, op, Args, q6_k_r8)

#define KV_KERNEL(isa, op, Args, format) \
  entry<Args, cpu::isa::op<KvFormat::format>>("f32_" #format "kv_" #op, Isa::isa, has_kv_format<Args, KvFormat::format>)
#define KV_KERNELS(isa, op, Args) \
  KV_KERNEL(isa, op, Args, f32), KV_KERNEL(isa, op, Args, f16), KV_KERNEL(isa, op, Args, bf16), KV_KERNEL(isa, op, Args, q8)
// The executable specification first: it runs where geometry/ has no reason for another.
#define ATTENTION_KERNELS(isa)                                                                                        \
  KV_KERNELS(isa, attention_serial, AttentionArgs), KV_KERNELS(isa, attention_grouped, AttentionArgs),                \
      KV_KERNELS(isa, attention_seqpar, AttentionArgs), KV_KERNELS(isa, attention_seqpar_long, AttentionArgs),            \
      KV_KERNELS(isa, attention_tiled, AttentionArgs)

// clang-format off
// A set with kernels of its own for every op.
#define COMPLETE(isa) \
  KERNEL(isa, advance, AdvanceArgs), \
  ATTENTION_KERNELS(isa), \
  KERNEL(isa, digest, DigestArgs), \
  KERNEL(isa, edit_logits, EditLogitsArgs), \
  WEIGHT_KERNELS(isa, embed, EmbedArgs), \
  KERNEL(isa, gated_delta, GatedDeltaArgs), \
  KERNEL(isa, gather, GatherArgs), \
  KERNEL(isa, glu, GluArgs), \
  KV_KERNELS(isa, kv_append, KvAppendArgs), \
  KERNEL(isa, mask_logits, MaskLogitsArgs), \
  WEIGHT_KERNELS(isa, matmul, MatmulArgs), \
  Q8_KERNELS(isa, matmul, MatmulArgs), \
  Q8_BLOCK_KERNELS(isa, matmul, MatmulArgs), \
  KERNEL(isa, moe_combine, MoeCombineArgs), \
  WEIGHT_KERNELS(isa, moe_down, MoeDownArgs), \
  Q8_KERNELS(isa, moe_down, MoeDownArgs), \
  Q8_BLOCK_KERNELS(isa, moe_down, MoeDownArgs), \
  WEIGHT_KERNELS(isa, moe_glu, MoeGluArgs), \
  Q8_KERNELS(isa, moe_glu, MoeGluArgs), \
  Q8_BLOCK_KERNELS(isa, moe_glu, MoeGluArgs), \
  KERNEL(isa, moe_group, MoeGroupArgs), \
  KERNEL(isa, pack, PackArgs), \
  KERNEL(isa, quantize, QuantizeArgs), \
  KERNEL(isa, rms_norm, RmsNormArgs), \
  KERNEL(isa, rope, RopeArgs), \
  KERNEL(isa, rope_table, RopeTableArgs), \
  KERNEL(isa, route, RouteArgs), \
  KERNEL(isa, sample, SampleArgs)
// A set that has only its own q8 products and takes the rest from below.
#define Q8_PRODUCTS(isa) \
  Q8_KERNELS(isa, matmul, MatmulArgs), \
  Q8_KERNELS(isa, moe_down, MoeDownArgs), \
  Q8_KERNELS(isa, moe_glu, MoeGluArgs)
#define ALL_Q8_PRODUCTS(isa) \
  Q8_PRODUCTS(isa), \
  Q8_BLOCK_KERNELS(isa, matmul, MatmulArgs), \
  Q8_BLOCK_KERNELS(isa, moe_down, MoeDownArgs), \
  Q8_BLOCK_KERNELS(isa, moe_glu, MoeGluArgs)

std::span<const KernelEntry> list() {
  static const KernelEntry kList[] = {
#ifdef PLUMB_HAS_X86
      Q8_PRODUCTS(amx),
      Q8_PRODUCTS(avx512),
      ATTENTION_KERNELS(avx512),
      Q8_PRODUCTS(avx_vnni),
      COMPLETE(avx2),
#endif
#ifdef PLUMB_HAS_NEON
      ALL_Q8_PRODUCTS(i8mm),
      ALL_Q8_PRODUCTS(dotprod),
      COMPLETE(neon),
#endif
      COMPLETE(portable),
  };
  return kList;
}
// clang-format on

std::string format_of(const OpDesc& desc, const void* args) {
  const auto name = [&]<class Args>(const Args*) {
    return std::string(traits(weight_of(*static_cast<const Args*>(args)).format).name);
  };
  if (&desc == &op<EmbedArgs>()) return name(static_cast<const EmbedArgs*>(args));
  if (&desc == &op<MatmulArgs>()) return name(static_cast<const MatmulArgs*>(args));
  if (&desc == &op<MoeGluArgs>()) return name(static_cast<const MoeGluArgs*>(args));
  if (&desc == &op<MoeDownArgs>()) return name(static_cast<const MoeDownArgs*>(args));
  return "f32";
}

std::string_view backend_name(Backend backend) {
  switch (backend) {
    case Backend::cpu: return "cpu";
    case Backend::cuda: return "cuda";
    case Backend::vulkan: return "vulkan";
  }
  return "unknown";
}

}  // namespace

std::span<const KernelEntry> all_kernels() { return list(); }

Result<const KernelEntry*> select_kernel(const OpDesc& desc, const void* args, device::Backend backend, Isa isa) {
  for (const KernelEntry& entry : all_kernels()) {
    if (entry.op == &desc && entry.kernel.backend == backend && isa_includes(isa, entry.isa) && entry.accepts(args)) return &entry;
  }
  return fail(ErrorCode::unsupported, "no kernel for weights in " + format_of(desc, args), std::string(backend_name(backend)),
              desc.name, std::string(to_string(isa)));
}

}  // namespace plumb::kernels
