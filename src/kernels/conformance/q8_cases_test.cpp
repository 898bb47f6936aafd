// Shape cases of quantize and pack, which have no bound: every kernel gives the reference's bits. Compiled into the test binary
// only.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kernels/conformance/shape_case.h"
#include "kernels/ref/reference.h"
#include "kernels/ref/weight_row.h"

namespace plumb::kernels::conformance {
namespace {

ShapeCase quantize_case(std::int32_t rows, std::int32_t groups, std::int32_t cols) {
  const QuantizeArgs args{
      .out = given<std::byte>(), .in = given<const float>(), .groups = groups, .cols = cols, .rows = rows};
  return make_case(fmt::format("rows={} groups={} cols={}", rows, groups, cols), args, rows,
                   [](const QuantizeArgs& a, Random& random) {
                     const std::int64_t count = std::int64_t{a.rows} * a.groups * a.cols;
                     auto* in = const_cast<float*>(a.in.get());
                     random.values(in, count);
                     for (std::int64_t i = 0; i < count; ++i) {
                       const std::int64_t block = i / kQ8Block;
                       if (block % 11 == 3) in[i] = 0;
                       if (block % 11 == 5) in[i] *= 1e-32F;  // below the smallest
                       if (block % 11 == 7) in[i] = 0.5F * static_cast<float>(i % 7 - 3) + (i % kQ8Block == 0 ? 62.0F : 0.0F);  // ties
                       if (block % 11 == 9 && i % 41 == 0) in[i] = std::numeric_limits<float>::infinity();
                     }
                   });
}

ShapeCase pack_case(WeightFormat format, std::int32_t matrices, std::int32_t rows, std::int32_t cols, std::int64_t gap,
                    std::int32_t interleaved = 1) {
  cols *= stretch(format);
  PackArgs args{.data = given<std::byte>(),
                .scales = given<std::byte>(),
                .from = weight_shape(format, rows, cols, matrices + 3, gap),
                .interleaved = interleaved,
                .rows = matrices};
  args.from.factors = {};  // they stay where they are
  ShapeCase c = make_case(fmt::format("{} matrices={} rows={} cols={} gap={} interleaved={}", traits(format).name, matrices, rows, cols, gap,
                                      interleaved),
                          args, matrices, [](const PackArgs& a, Random& random) {
                            WeightView stack = a.from;
                            stack.experts = a.rows;
                            fill_weight(stack, random);
                          });
  c.misaligned = {"from", "from_scales"};
  c.rows_independent = interleaved == 1;  // else another's bytes lie between those of a row's matrix
  return c;
}

TEST(Pack, KeepsEveryWeight) {
  Random random(5);
  for (const WeightFormat format : stored_formats()) {
    if (!packed_format(format)) continue;
    WeightView from = weight_shape(format, 13, 96 * stretch(format), 2, 5);
    from.factors = {};
    std::vector<std::byte> data(weight_data_extent(from));
    std::vector<std::byte> scales(from.scales ? weight_scales_extent(from) : 0);
    from.data = host_ref<const std::byte>(data.data());
    from.scales = host_ref<const std::byte>(scales.empty() ? nullptr : scales.data());
    fill_weight(from, random);
    WeightView to = packed_shape(from);
    std::vector<std::byte> packed(static_cast<std::size_t>(2 * to.expert_stride));
    std::vector<std::byte> packed_scales(static_cast<std::size_t>(2 * to.scale_expert_stride));
    const PackArgs args{.data = host_ref(packed.data()), .scales = host_ref(packed_scales.data()), .from = from, .rows = 2};
    ASSERT_TRUE(check(args).ok());
    reference(args);
    to.data = host_ref<const std::byte>(packed.data());
    to.scales = host_ref<const std::byte>(packed_scales.data());
    EXPECT_EQ(weight_data_extent(to), packed.size());
    EXPECT_EQ(weight_scales_extent(to), packed_scales.size());
    for (std::int64_t e = 0; e < 2; ++e) {
      for (std::int64_t r = 0; r < 13; ++r) EXPECT_EQ(weight_row(from, e, r), weight_row(to, e, r)) << traits(format).name;
    }
  }
}

// Two matrices that take turns in one memory, as gate and up do: neither writes over the other, and nothing is left over.
TEST(Pack, MatricesThatTakeTurnsKeepTheirWeights) {
  Random random(7);
  for (const WeightFormat format : stored_formats()) {
    if (!packed_format(format)) continue;
    std::vector<std::byte> stored[2];
    std::vector<std::byte> stored_scales[2];
    WeightView from[2];
    for (int m = 0; m < 2; ++m) {
      from[m] = weight_shape(format, 13, 96 * stretch(format), 2);
      from[m].factors = {};
      stored[m].resize(weight_data_extent(from[m]));
      stored_scales[m].resize(from[m].scales ? weight_scales_extent(from[m]) : 0);
      from[m].data = host_ref<const std::byte>(stored[m].data());
      from[m].scales = host_ref<const std::byte>(stored_scales[m].empty() ? nullptr : stored_scales[m].data());
      fill_weight(from[m], random);
    }
    const WeightView alone = packed_shape(from[0]);
    WeightView to = packed_shape(from[0], 2);
    EXPECT_EQ(to.expert_stride, 2 * alone.expert_stride);
    std::vector<std::byte> packed(static_cast<std::size_t>(2 * to.expert_stride));
    std::vector<std::byte> packed_scales(static_cast<std::size_t>(2 * to.scale_expert_stride));
    const auto place = [&](int m) { return static_cast<std::size_t>(m * 8 * alone.row_stride); };
    const auto scale_place = [&](int m) { return static_cast<std::size_t>(m * 8 * alone.scale_row_stride); };
    for (int m = 0; m < 2; ++m) {
      const PackArgs args{.data = host_ref(packed.data() + place(m)),
                          .scales = host_ref(packed_scales.data() + scale_place(m)),
                          .from = from[m],
                          .interleaved = 2,
                          .rows = 2};
      ASSERT_TRUE(check(args).ok());
      reference(args);
    }
    for (int m = 0; m < 2; ++m) {
      to.data = host_ref<const std::byte>(packed.data() + place(m));
      to.scales = host_ref<const std::byte>(packed_scales.data() + scale_place(m));
      EXPECT_LE(place(m) + weight_data_extent(to), packed.size());
      EXPECT_LE(scale_place(m) + weight_scales_extent(to), packed_scales.size());
      for (std::int64_t e = 0; e < 2; ++e) {
        for (std::int64_t r = 0; r < 13; ++r) EXPECT_EQ(weight_row(from[m], e, r), weight_row(to, e, r)) << traits(format).name;
      }
    }
    EXPECT_EQ(place(1) + weight_data_extent(to), packed.size());
    EXPECT_EQ(scale_place(1) + weight_scales_extent(to), packed_scales.size());
  }
}

TEST(Quantize, IsWithinHalfAStepOfTheInput) {
  Random random(6);
  std::vector<float> in(96);
  random.values(in.data(), 96);
  std::vector<std::byte> out(q8_row_bytes(96));
  reference(QuantizeArgs{.out = host_ref(out.data()), .in = host_ref<const float>(in.data()), .cols = 96, .rows = 1});
  for (int b = 0; b < 3; ++b) {
    const Q8Block& block = q8_row(out.data(), 0, 96)[b];
    int sums[2] = {0, 0};
    float largest = 0;
    for (int k = 0; k < kQ8Block; ++k) {
      const float x = in[static_cast<std::size_t>(b * kQ8Block + k)];
      const int code = block.codes[k];
      EXPECT_LE(std::fabs(x - block.scale * static_cast<float>(code)), 0.5001F * block.scale);
      largest = std::max(largest, std::fabs(x));
      sums[k % 4 / 2] -= code;
    }
    EXPECT_FLOAT_EQ(block.scale * 127, largest);
    EXPECT_EQ(block.sums[0], sums[0]);
    EXPECT_EQ(block.sums[1], sums[1]);
  }
}

}  // namespace

std::vector<ShapeCase> q8_cases() {
  std::vector<ShapeCase> cases;
  for (const auto& [rows, groups, cols] : {std::array{1, 1, 32}, {1, 4, 96}, {5, 1, 2880}, {3, 2, 64}, {40, 1, 128}}) {
    cases.push_back(quantize_case(rows, groups, cols));
  }
  for (const WeightFormat format : stored_formats()) {
    if (!packed_format(format)) continue;
    cases.push_back(pack_case(format, 1, 8, 32, 0));
    cases.push_back(pack_case(format, 1, 67, 96, 1));
    cases.push_back(pack_case(format, 3, 21, 64, 7));
    cases.push_back(pack_case(format, 2, 21, 64, 0, 2));
  }
  return cases;
}

}  // namespace plumb::kernels::conformance
