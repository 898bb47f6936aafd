// exp and tanh of the avx2 kernels.
// clang-format off
#if defined(__x86_64__)
#include <gtest/gtest.h>

#include "kernels/cpu/prelude.h"
#include "kernels/table.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#define PLUMB_CPU_ISA avx2
#include "kernels/cpu/avx2/simd.h"
#include "kernels/cpu/generic/math.h"
#include "kernels/cpu/generic/math_check.h"
#pragma GCC pop_options
// clang-format on

namespace plumb::kernels {
namespace {

TEST(Math, ExpAndTanhOf_avx2) {
  if (best_isa() < Isa::avx2) return;  // nothing to measure on this machine
  const cpu::avx2::ExpReport report = cpu::avx2::measure_exp();
  EXPECT_LE(report.worst_ulp, 2.0);
  EXPECT_LE(report.worst_tanh, 2e-7);
  EXPECT_TRUE(report.limits);
  EXPECT_TRUE(report.lanes_agree);
}

}  // namespace
}  // namespace plumb::kernels
#endif
