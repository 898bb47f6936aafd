#include "device/cpu/cpu_features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace plumb::device {
namespace {

constexpr bool bit(std::uint64_t word, int index) { return (word >> index & 1) != 0; }
// Every bit of `wanted`.
constexpr bool all(std::uint64_t word, std::uint64_t wanted) { return (word & wanted) == wanted; }

#if defined(__x86_64__)
X86Registers read_registers() {
  X86Registers r;
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return r;
  r.leaf1_ecx = c;
  if (bit(c, 27)) {  // OSXSAVE: xgetbv is there and says what the system saves
    unsigned low = 0;
    unsigned high = 0;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    r.xcr0 = std::uint64_t{high} << 32 | low;
  }
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return r;
  r.leaf7_ebx = b;
  r.leaf7_ecx = c;
  r.leaf7_edx = d;
  if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0) r.leaf7_1_eax = a;
  return r;
}

// Linux gives a process the tiles only when it asks (Documentation/arch/x86/xstate.rst). Asking again is allowed; threads that
// start later have them too, and all workers do.
bool may_use_tiles() {
#if defined(__linux__)
  constexpr long kRequest = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
#else
  return false;
#endif
}
#endif

#if defined(__aarch64__) && defined(__APPLE__)
bool apple_has(const char* name) {
  int value = 0;
  std::size_t size = sizeof value;
  return sysctlbyname(name, &value, &size, nullptr, 0) == 0 && value != 0;
}
#endif

CpuFeatures detect() {
#if defined(__x86_64__)
  CpuFeatures features = x86_features(read_registers());
  features.amx_int8 = features.amx_int8 && may_use_tiles();
  return features;
#elif defined(__aarch64__) && defined(__linux__)
  return arm_features(getauxval(AT_HWCAP), getauxval(AT_HWCAP2));
#elif defined(__aarch64__) && defined(__APPLE__)
  CpuFeatures features;
  features.neon = true;
  features.dotprod = apple_has("hw.optional.arm.FEAT_DotProd");
  features.i8mm = features.dotprod && apple_has("hw.optional.arm.FEAT_I8MM");
  return features;
#else
  return {};
#endif
}

}  // namespace

CpuFeatures x86_features(const X86Registers& r) {
  // XCR0: 1 SSE, 2 AVX; 5, 6 and 7 the mask and upper vector registers; 17 and 18 the tiles.
  const bool ymm = all(r.xcr0, 0x6);
  const bool zmm = all(r.xcr0, 0xE6);
  const bool tiles = all(r.xcr0, 0x60000);
  CpuFeatures f;
  f.avx2 = ymm && bit(r.leaf1_ecx, 28) && bit(r.leaf1_ecx, 12) && bit(r.leaf1_ecx, 29) && bit(r.leaf7_ebx, 5);
  f.avx_vnni = f.avx2 && bit(r.leaf7_1_eax, 4);
  const bool f_dq_bw_vl = bit(r.leaf7_ebx, 16) && bit(r.leaf7_ebx, 17) && bit(r.leaf7_ebx, 30) && bit(r.leaf7_ebx, 31);
  f.avx512 = f.avx2 && zmm && f_dq_bw_vl && bit(r.leaf7_ecx, 11);
  f.amx_int8 = f.avx512 && tiles && bit(r.leaf7_edx, 24) && bit(r.leaf7_edx, 25);
  return f;
}

CpuFeatures arm_features(std::uint64_t hwcap, std::uint64_t hwcap2) {
  CpuFeatures f;
  f.neon = bit(hwcap, 1);                   // ASIMD
  f.dotprod = f.neon && bit(hwcap, 20);     // ASIMDDP
  f.i8mm = f.dotprod && bit(hwcap2, 13);    // I8MM
  return f;
}

CpuFeatures cpu_features() {
  static const CpuFeatures found = detect();
  return found;
}

std::string to_string(const CpuFeatures& f) {
  const struct {
    bool has;
    const char* name;
  } list[] = {{f.avx2, "avx2"}, {f.avx_vnni, "avx_vnni"}, {f.avx512, "avx512"}, {f.amx_int8, "amx_int8"},
              {f.neon, "neon"}, {f.dotprod, "dotprod"},   {f.i8mm, "i8mm"}};
  std::string text;
  for (const auto& [has, name] : list) {
    if (has) text += (text.empty() ? "" : " ") + std::string(name);
  }
  return text.empty() ? "none" : text;
}

}  // namespace plumb::device
