// exp and tanh of the portable kernels.
// clang-format off
#include <gtest/gtest.h>

#include "kernels/cpu/prelude.h"
#include "kernels/table.h"

#define PLUMB_CPU_ISA portable
#include "kernels/cpu/portable/simd.h"
#include "kernels/cpu/generic/math.h"
#include "kernels/cpu/generic/math_check.h"
// clang-format on

namespace plumb::kernels {
namespace {

TEST(Math, ExpAndTanhOf_portable) {
  const cpu::portable::ExpReport report = cpu::portable::measure_exp();
  EXPECT_LE(report.worst_ulp, 2.0);
  EXPECT_LE(report.worst_tanh, 2e-7);
  EXPECT_TRUE(report.limits);
  EXPECT_TRUE(report.lanes_agree);
}

}  // namespace
}  // namespace plumb::kernels
