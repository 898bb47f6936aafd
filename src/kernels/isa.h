// Instruction sets a CPU kernel may need: which there are, which of them this build and this machine have, which is taken.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "device/cpu/cpu_features.h"

namespace plumb::kernels {

// In rising order of preference within an architecture. A set has its own kernels for some ops and takes the others' from the
// sets it includes (isa_includes).
enum class Isa : std::uint8_t {
  portable,
  avx2,      // AVX2, FMA and F16C: every op
  avx_vnni,  // with VNNI in 256 bits (client processors without AVX-512): q8 products
  avx512,    // AVX-512 with VNNI: q8 products, attention
  amx,       // with tiles: q8 products of many rows
  neon,      // AArch64: every op
  dotprod,   // with sdot: q8 products
  i8mm,      // with smmla: q8 products
};
inline constexpr int kIsaCount = static_cast<int>(Isa::i8mm) + 1;

// "avx2".
std::string_view to_string(Isa isa);
// What a machine must have for it, in words.
std::string_view needs(Isa isa);
// Whether kernels of `part` run where `isa` is allowed: itself and everything below it.
bool isa_includes(Isa isa, Isa part);

// The sets this build has kernels of, best last. portable is always the first.
std::span<const Isa> built_isas();
// Whether a machine with these features has the set.
bool isa_runs_on(Isa isa, const device::CpuFeatures& features);
// The sets that this build and this machine have, best last. Thread rule: any thread.
std::span<const Isa> available_isas();
// The best of them.
Isa best_isa();

// The set of that name. Errors: invalid_argument for a name that is none, unsupported for a set that this build or this machine
// does not have. Both list what could be chosen here.
Result<Isa> parse_isa(std::string_view name);
// The same for any build and machine, for tests.
Result<Isa> parse_isa(std::string_view name, std::span<const Isa> built, const device::CpuFeatures& features);

}  // namespace plumb::kernels
