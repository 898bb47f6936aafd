#include "device/cpu/cpu_features.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace plumb::device {
namespace {

constexpr std::uint32_t bits(std::initializer_list<int> list) {
  std::uint32_t word = 0;
  for (const int b : list) word |= std::uint32_t{1} << b;
  return word;
}

// A server with everything.
X86Registers everything() {
  return {.leaf1_ecx = bits({12, 27, 28, 29}), .leaf7_ebx = bits({5, 16, 17, 30, 31}), .leaf7_ecx = bits({11}),
          .leaf7_edx = bits({24, 25}), .leaf7_1_eax = bits({4}), .xcr0 = 0x600E7};
}

TEST(CpuFeatures, OfAServerWithEverything) {
  const CpuFeatures f = x86_features(everything());
  EXPECT_EQ(to_string(f), "avx2 avx_vnni avx512 amx_int8");
}

TEST(CpuFeatures, WhatTheSystemDoesNotSaveIsNotThere) {
  X86Registers r = everything();
  r.xcr0 = 0xE7;  // no tiles
  EXPECT_EQ(to_string(x86_features(r)), "avx2 avx_vnni avx512");
  r.xcr0 = 0x7;  // nor the upper vector registers
  EXPECT_EQ(to_string(x86_features(r)), "avx2 avx_vnni");
  r.xcr0 = 0xC7;  // nor the mask registers: as good as none
  EXPECT_EQ(to_string(x86_features(r)), "avx2 avx_vnni");
  r.xcr0 = 0x3;
  EXPECT_EQ(to_string(x86_features(r)), "none");
  r.xcr0 = 0;
  EXPECT_EQ(to_string(x86_features(r)), "none");
}

TEST(CpuFeatures, AGroupNeedsEachOfItsParts) {
  for (const int b : {12, 28, 29}) {
    X86Registers r = everything();
    r.leaf1_ecx &= ~bits({b});
    EXPECT_FALSE(x86_features(r).avx2) << b;
    EXPECT_FALSE(x86_features(r).avx512) << b;
  }
  for (const int b : {16, 17, 30, 31}) {
    X86Registers r = everything();
    r.leaf7_ebx &= ~bits({b});
    EXPECT_TRUE(x86_features(r).avx2) << b;
    EXPECT_FALSE(x86_features(r).avx512) << b;
    EXPECT_FALSE(x86_features(r).amx_int8) << b;
  }
  X86Registers r = everything();
  r.leaf7_ecx = 0;
  EXPECT_FALSE(x86_features(r).avx512) << "without VNNI";
}

TEST(CpuFeatures, OfArm) {
  EXPECT_EQ(to_string(arm_features(0x2, 0)), "neon");
  EXPECT_EQ(to_string(arm_features(0x100002, 0)), "neon dotprod");
  EXPECT_EQ(to_string(arm_features(0x100002, 0x2000)), "neon dotprod i8mm");
  EXPECT_EQ(to_string(arm_features(0, 0x2000)), "none");
}

TEST(CpuFeatures, OfThisMachineAgreeWithTheCompilersLibrary) {
  const CpuFeatures f = cpu_features();
  EXPECT_EQ(f, cpu_features());
#if defined(__x86_64__)
  __builtin_cpu_init();
  EXPECT_EQ(f.avx2, __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 && __builtin_cpu_supports("f16c") != 0);
  EXPECT_EQ(f.avx512, __builtin_cpu_supports("avx512vnni") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
                          __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0);
#elif defined(__aarch64__)
  EXPECT_TRUE(f.neon);
#endif
}

}  // namespace
}  // namespace plumb::device
