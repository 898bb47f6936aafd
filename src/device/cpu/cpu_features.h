// What instructions this processor has and its operating system lets a program use.
#pragma once

#include <cstdint>
#include <string>

namespace plumb::device {

// Groups as kernels need them together; a group is true only when every part of it is there, and the registers are saved by the
// system. All false on an architecture that does not know the group.
struct CpuFeatures {
  // x86-64
  bool avx2 = false;      // AVX2, FMA, F16C
  bool avx_vnni = false;  // AVX-VNNI: byte products in 256 bits, VEX-coded
  bool avx512 = false;    // AVX-512 F, BW, VL, DQ and VNNI
  bool amx_int8 = false;  // AMX tiles and their byte products
  // AArch64
  bool neon = false;
  bool dotprod = false;   // sdot
  bool i8mm = false;      // smmla

  bool operator==(const CpuFeatures&) const = default;
};

// Of the machine it runs on. Thread rule: any thread.
CpuFeatures cpu_features();

// The names that are set, separated by spaces, e.g. "avx2 avx512"; "none".
std::string to_string(const CpuFeatures& features);

// What cpuid and xgetbv answer, as far as it is read here. Each register's bits are those of the Intel manual, volume 2, CPUID.
struct X86Registers {
  std::uint32_t leaf1_ecx = 0;
  std::uint32_t leaf7_ebx = 0;
  std::uint32_t leaf7_ecx = 0;
  std::uint32_t leaf7_edx = 0;
  std::uint32_t leaf7_1_eax = 0;
  std::uint64_t xcr0 = 0;  // 0 without OSXSAVE
};
CpuFeatures x86_features(const X86Registers& registers);

// From the words that Linux hands to a program on AArch64 (AT_HWCAP, AT_HWCAP2; bits of asm/hwcap.h).
CpuFeatures arm_features(std::uint64_t hwcap, std::uint64_t hwcap2);

}  // namespace plumb::device
