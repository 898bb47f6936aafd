#include "device/bank.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "device/address_sanitizer.h"

namespace plumb::device {
namespace {

BankPlan kv_plan(std::initializer_list<BankRegion> regions) { return {.name = "kv", .regions = regions}; }

TEST(BankPlan, RegionsAreAlignedAndApart) {
  BankPlan plan = kv_plan({{"a", 1}, {"empty", 0}, {"b", 128}});
  EXPECT_EQ(plan.add("c", 129), 3U);
  for (const bool checked : {false, true}) {
    const auto offsets = plan.offsets(checked);
    ASSERT_EQ(offsets.size(), 4U);
    std::uint64_t end = 0;
    const std::uint64_t guard = checked || kUnderAddressSanitizer ? kGuardBytes : 0;
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      EXPECT_EQ(offsets[i] % kBankAlignment, 0U);
      EXPECT_GE(offsets[i], end + guard);
      end = offsets[i] + plan.regions[i].bytes;
    }
    EXPECT_GE(plan.total_bytes(checked), end + guard);
    EXPECT_LT(plan.total_bytes(checked), end + guard + kBankAlignment);
  }
}

TEST(BankPlan, TotalSaturates) {
  EXPECT_EQ(kv_plan({{"a", UINT64_MAX}}).total_bytes(false), UINT64_MAX);
  EXPECT_EQ(kv_plan({{"a", UINT64_MAX - 100}}).total_bytes(false), UINT64_MAX);
  EXPECT_EQ(kv_plan({{"a", std::uint64_t{1} << 63}, {"b", std::uint64_t{1} << 63}}).total_bytes(false), UINT64_MAX);
  EXPECT_EQ(kv_plan({{"a", UINT64_MAX - 255}}).total_bytes(true), UINT64_MAX) << "the guard wraps";
}

TEST(BankPlan, RefusalCarriesTheArithmetic) {
  const BankPlan plan = kv_plan({{"small", 128}, {"layer3.k", 4096}});
  const std::uint64_t asked = plan.total_bytes(true);
  EXPECT_TRUE(plan.fits(true, 1000, 2, asked + 1000).ok());
  const Status status = plan.fits(true, 1000, 2, asked + 999);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(status.error().subject, "bank kv");
  EXPECT_EQ(status.error().message, "2 regions (largest 'layer3.k' 4096) need " + std::to_string(asked) +
                                        " bytes + 1000 reserved in 2 banks = " + std::to_string(asked + 1000) +
                                        ", above the limit of " + std::to_string(asked + 999));
  EXPECT_FALSE(kv_plan({{"a", UINT64_MAX}}).fits(false, 0, 0, UINT64_MAX - 1).ok());
  EXPECT_FALSE(kv_plan({{"a", UINT64_MAX / 2}}).fits(false, UINT64_MAX / 2 + 1000, 1, UINT64_MAX).ok()) << "the sum wraps";
}

TEST(Poison, NamesItsAllocationEvenAfterArithmetic) {
  for (const std::uint32_t id : {1U, 2U, 77U, 0x1FFFFFU}) {
    const std::uint32_t word = poison_word(id);
    EXPECT_TRUE(is_poison(word) && is_untouched_poison(word));
    EXPECT_EQ(poison_owner(word), id);
    volatile float value = std::bit_cast<float>(word);
    value = value * 3.0F + 1.0F;
    const auto after = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    EXPECT_TRUE(std::isnan(static_cast<float>(value)));
    EXPECT_TRUE(is_poison(after));
    EXPECT_FALSE(is_untouched_poison(after));
    EXPECT_EQ(poison_owner(after), id);
  }
  for (const float value : {0.0F, 1.0F, -3e38F, HUGE_VALF, -HUGE_VALF, std::nanf("")}) {
    EXPECT_FALSE(is_poison(std::bit_cast<std::uint32_t>(value))) << value;
  }
}

}  // namespace
}  // namespace plumb::device
