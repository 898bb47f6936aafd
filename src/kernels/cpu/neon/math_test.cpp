// exp and tanh of the neon kernels.
// clang-format off
#if defined(__aarch64__)
#include <gtest/gtest.h>

#include "kernels/cpu/prelude.h"

#define PLUMB_CPU_ISA neon
#include "kernels/cpu/neon/simd.h"
#include "kernels/cpu/generic/math.h"
#include "kernels/cpu/generic/math_check.h"
// clang-format on

namespace plumb::kernels {
namespace {

TEST(Math, ExpAndTanhOf_neon) {
  const cpu::neon::ExpReport report = cpu::neon::measure_exp();
  EXPECT_LE(report.worst_ulp, 2.0);
  EXPECT_LE(report.worst_tanh, 2e-7);
  EXPECT_TRUE(report.limits);
  EXPECT_TRUE(report.lanes_agree);
}

}  // namespace
}  // namespace plumb::kernels
#endif
