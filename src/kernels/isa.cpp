#include "kernels/isa.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/kernels.h"

namespace plumb::kernels {
namespace {

struct IsaInfo {
  std::string_view name;
  std::string_view needs;
  Isa below;                            // the set it builds on; itself for the lowest
  bool device::CpuFeatures::* feature;  // null: any machine
};
constexpr IsaInfo kIsas[kIsaCount] = {
    {"portable", "nothing", Isa::portable, nullptr},
    {"avx2", "AVX2, FMA and F16C", Isa::portable, &device::CpuFeatures::avx2},
    {"avx_vnni", "AVX2, FMA, F16C and AVX-VNNI", Isa::avx2, &device::CpuFeatures::avx_vnni},
    {"avx512", "AVX-512 F, BW, VL, DQ and VNNI", Isa::avx2, &device::CpuFeatures::avx512},
    {"amx", "AVX-512 with VNNI and AMX-INT8", Isa::avx512, &device::CpuFeatures::amx_int8},
    {"neon", "Advanced SIMD", Isa::portable, &device::CpuFeatures::neon},
    {"dotprod", "Advanced SIMD with FEAT_DotProd", Isa::neon, &device::CpuFeatures::dotprod},
    {"i8mm", "Advanced SIMD with FEAT_DotProd and FEAT_I8MM", Isa::dotprod, &device::CpuFeatures::i8mm},
};
const IsaInfo& info(Isa isa) { return kIsas[static_cast<std::size_t>(isa)]; }

constexpr Isa kBuilt[] = {
    Isa::portable,
#ifdef PLUMB_HAS_X86
    Isa::avx2, Isa::avx_vnni, Isa::avx512, Isa::amx,
#endif
#ifdef PLUMB_HAS_NEON
    Isa::neon, Isa::dotprod, Isa::i8mm,
#endif
};

std::string joined(std::span<const Isa> isas) {
  std::string text;
  for (const Isa isa : isas) text += (text.empty() ? "" : ", ") + std::string(to_string(isa));
  return text;
}

std::vector<Isa> runnable(std::span<const Isa> built, const device::CpuFeatures& features) {
  std::vector<Isa> list;
  std::copy_if(built.begin(), built.end(), std::back_inserter(list), [&](Isa isa) { return isa_runs_on(isa, features); });
  return list;
}

}  // namespace

std::string_view to_string(Isa isa) { return info(isa).name; }
std::string_view needs(Isa isa) { return info(isa).needs; }

bool isa_includes(Isa isa, Isa part) {
  while (isa != part && info(isa).below != isa) isa = info(isa).below;
  return isa == part;
}

std::span<const Isa> built_isas() { return kBuilt; }

bool isa_runs_on(Isa isa, const device::CpuFeatures& features) {
  return info(isa).feature == nullptr || features.*info(isa).feature;
}

std::span<const Isa> available_isas() {
  static const std::vector<Isa> list = runnable(kBuilt, device::cpu_features());
  return list;
}

Isa best_isa() { return available_isas().back(); }

Result<Isa> parse_isa(std::string_view name) { return parse_isa(name, kBuilt, device::cpu_features()); }

Result<Isa> parse_isa(std::string_view name, std::span<const Isa> built, const device::CpuFeatures& features) {
  const std::string choices = joined(runnable(built, features));
  const auto* const found = std::find_if(std::begin(kIsas), std::end(kIsas), [&](const IsaInfo& i) { return i.name == name; });
  if (found == std::end(kIsas)) {
    return fail(ErrorCode::invalid_argument, "no such instruction set; here it can be one of " + choices, {}, "isa", std::string(name));
  }
  const auto isa = static_cast<Isa>(found - std::begin(kIsas));
  if (std::find(built.begin(), built.end(), isa) == built.end()) {
    return fail(ErrorCode::unsupported, "this build has no kernels of it; here it can be one of " + choices, {}, "isa", std::string(name));
  }
  if (!isa_runs_on(isa, features)) {
    return fail(ErrorCode::unsupported, "this machine does not have " + std::string(found->needs) + "; here it can be one of " + choices, {},
                "isa", std::string(name));
  }
  return isa;
}

}  // namespace plumb::kernels
