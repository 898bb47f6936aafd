#include "measure/parity.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace plumb::measure {
namespace {

TEST(Parity, EqualLogitsAreEqual) {
  const std::vector<float> a = {1.5F, -2, 0.25F, 1.25F};
  const LogitComparison c = compare_logits(a, a);
  EXPECT_DOUBLE_EQ(c.cosine, 1);
  EXPECT_EQ(c.max_abs, 0);
  EXPECT_EQ(c.max_rel, 0);
  EXPECT_EQ(c.kl, 0);
  EXPECT_EQ(c.top1_reference, 0U);
  EXPECT_EQ(c.top1_ours, 0U);
  EXPECT_DOUBLE_EQ(c.reference_margin, 0.25);
}

TEST(Parity, DifferencesAreSizedAndPlaced) {
  const std::vector<float> reference = {4, 0, -8, 3}, ours = {4, 0, -7.5F, 5};
  const LogitComparison c = compare_logits(reference, ours);
  EXPECT_DOUBLE_EQ(c.max_abs, 2);
  EXPECT_EQ(c.max_abs_at, 3U);
  EXPECT_DOUBLE_EQ(c.max_rel, 0.25);
  EXPECT_EQ(c.top1_reference, 0U);
  EXPECT_EQ(c.top1_ours, 3U);
  const double dot = 16 + 60 + 15, norms = std::sqrt(16.0 + 64 + 9) * std::sqrt(16.0 + 56.25 + 25);
  EXPECT_NEAR(c.cosine, dot / norms, 1e-15);
}

TEST(Parity, KlIsThatOfTheSoftmaxes) {
  const std::vector<float> even = {0, 0};
  const std::vector<float> odd = {std::log(3.0F), 0};  // 3/4 and 1/4
  EXPECT_NEAR(compare_logits(even, odd).kl, 0.5 * std::log(0.5 / 0.75) + 0.5 * std::log(0.5 / 0.25), 1e-7);
  EXPECT_NEAR(compare_logits(odd, even).kl, 0.75 * std::log(1.5) + 0.25 * std::log(0.5), 1e-7);
  const std::vector<float> shifted = {1000, 1000};  // a constant changes no probability
  EXPECT_NEAR(compare_logits(even, shifted).kl, 0, 1e-12);
}

TEST(Parity, AValueThatIsNotFiniteIsInfinitelyWrong) {
  const std::vector<float> reference = {1, 2, 3}, ours = {1, std::numeric_limits<float>::quiet_NaN(), 3};
  const LogitComparison c = compare_logits(reference, ours);
  EXPECT_EQ(c.cosine, 0);
  EXPECT_TRUE(std::isinf(c.max_abs));
  EXPECT_TRUE(std::isinf(c.kl));
  EXPECT_EQ(c.max_abs_at, 1U);
}

TEST(Parity, LikelihoodAndTies) {
  const std::vector<float> flat(8, 3.0F);
  EXPECT_NEAR(negative_log_likelihood(flat, 5), std::log(8.0), 1e-12);
  EXPECT_EQ(argmax(flat), 0U);
  EXPECT_EQ(top_margin(flat), 0);
}

}  // namespace
}  // namespace plumb::measure
