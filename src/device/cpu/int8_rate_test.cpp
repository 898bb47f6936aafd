#include "device/cpu/int8_rate.h"

#include <gtest/gtest.h>

namespace plumb::device {
namespace {

TEST(Int8Rate, IsMeasuredWithAnyNumberOfThreads) {
#if defined(__x86_64__)
  const bool known = __builtin_cpu_supports("avx2");
#else
  const bool known = false;
#endif
  for (const int threads : {1, 3}) {
    const auto rate = measure_int8_rate(threads, 0);
    ASSERT_TRUE(rate.ok()) << rate.error().to_string();
    EXPECT_EQ(*rate > 0, known);
  }
}

}  // namespace
}  // namespace plumb::device
