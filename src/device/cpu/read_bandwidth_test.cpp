#include "device/cpu/read_bandwidth.h"

#include <gtest/gtest.h>

namespace plumb::device {
namespace {

TEST(ReadBandwidth, IsMeasuredWithAnyNumberOfThreads) {
  for (const int threads : {1, 3}) {
    const auto reading = ReadBandwidth::open(threads);
    ASSERT_TRUE(reading.ok()) << reading.error().to_string();
    const auto rate = reading->measure(0);
    ASSERT_TRUE(rate.ok()) << rate.error().to_string();
    EXPECT_GT(*rate, 0);
  }
}

}  // namespace
}  // namespace plumb::device
