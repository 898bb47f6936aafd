#include "kernels/isa.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace plumb::kernels {
namespace {

TEST(Isa, EachIncludesItselfAndWhatItBuildsOn) {
  for (int i = 0; i < kIsaCount; ++i) {
    EXPECT_TRUE(isa_includes(static_cast<Isa>(i), static_cast<Isa>(i)));
    EXPECT_TRUE(isa_includes(static_cast<Isa>(i), Isa::portable));
  }
  EXPECT_TRUE(isa_includes(Isa::avx512, Isa::avx2));
  EXPECT_TRUE(isa_includes(Isa::amx, Isa::avx512));
  EXPECT_TRUE(isa_includes(Isa::i8mm, Isa::dotprod));
  EXPECT_FALSE(isa_includes(Isa::avx512, Isa::avx_vnni)) << "a server may lack the short encoding";
  EXPECT_FALSE(isa_includes(Isa::neon, Isa::avx2));
  EXPECT_FALSE(isa_includes(Isa::portable, Isa::avx2));
}

TEST(Isa, TheBestIsTheLastThatTheMachineHas) {
  ASSERT_FALSE(available_isas().empty());
  EXPECT_EQ(available_isas().front(), Isa::portable);
  EXPECT_EQ(available_isas().back(), best_isa());
  for (const Isa isa : available_isas()) {
    EXPECT_NE(std::find(built_isas().begin(), built_isas().end(), isa), built_isas().end());
    EXPECT_TRUE(isa_runs_on(isa, device::cpu_features()));
  }
  EXPECT_TRUE(isa_runs_on(Isa::portable, {}));
  EXPECT_FALSE(isa_runs_on(Isa::avx2, {}));
  EXPECT_TRUE(isa_runs_on(Isa::dotprod, {.neon = true, .dotprod = true}));
}

TEST(Isa, IsReadByName) {
  for (const Isa isa : available_isas()) EXPECT_EQ(*parse_isa(to_string(isa)), isa);
  const Isa built[] = {Isa::portable, Isa::avx2, Isa::avx512};
  EXPECT_EQ(*parse_isa("avx512", built, {.avx2 = true, .avx512 = true}), Isa::avx512);
}

TEST(Isa, ARefusalListsTheChoices) {
  const Isa built[] = {Isa::portable, Isa::avx2, Isa::avx512};
  const device::CpuFeatures client{.avx2 = true};
  const auto refused = [&](std::string_view name, ErrorCode code, std::string_view reason) {
    const auto isa = parse_isa(name, built, client);
    ASSERT_FALSE(isa.ok()) << name;
    EXPECT_EQ(isa.error().code, code) << name;
    EXPECT_EQ(isa.error().field, "isa");
    EXPECT_EQ(isa.error().value, name);
    EXPECT_NE(isa.error().message.find(reason), std::string::npos) << isa.error().message;
    EXPECT_NE(isa.error().message.find("one of portable, avx2"), std::string::npos) << isa.error().message;
    EXPECT_EQ(isa.error().message.find("avx2, avx512"), std::string::npos) << isa.error().message;
  };
  refused("avx9", ErrorCode::invalid_argument, "no such");
  refused("", ErrorCode::invalid_argument, "no such");
  refused("neon", ErrorCode::unsupported, "this build");
  refused("avx512", ErrorCode::unsupported, "AVX-512 F, BW, VL, DQ and VNNI");
}

}  // namespace
}  // namespace plumb::kernels
