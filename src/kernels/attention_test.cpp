// What attention may see: the window to the row, pages, and what happens where there is no page.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "kernels/conformance/checker.h"
#include "kernels/geometry/attention_plan.h"
#include "kernels/ref/reference.h"

namespace plumb::kernels {
namespace {

using conformance::run_kernel;

// One sequence with keys 0..length-1 in pages of its own; head_dim 8, one KV head, no sinks unless set.
struct OneSequence {
  static constexpr std::int32_t kHeadDim = 8;
  std::vector<float> k, v, q, out, sinks;
  std::vector<std::int32_t> table, positions, sequences;
  AttentionArgs args;

  OneSequence(std::int32_t length, std::int32_t page_rows, std::int32_t window, std::vector<std::int32_t> rows)
      : positions(std::move(rows)), sequences(positions.size(), 0) {
    const std::int32_t pages = (length + page_rows - 1) / page_rows;
    k.assign(std::size_t(pages) * page_rows * kHeadDim, 0.0F);
    v = k;
    for (std::int32_t p = 0; p < pages; ++p) table.push_back(p);
    q.assign(positions.size() * kHeadDim, 1.0F);
    out.assign(q.size(), std::nanf(""));
    args = {.out = host_ref(out.data()),
            .q = host_ref<const float>(q.data()),
            .kv = {.k = host_ref(reinterpret_cast<std::byte*>(k.data())),
                   .v = host_ref(reinterpret_cast<std::byte*>(v.data())),
                   .table = host_ref<const std::int32_t>(table.data()),
                   .pages = pages,
                   .page_rows = page_rows,
                   .table_pages = pages,
                   .sequences = 1,
                   .kv_heads = 1,
                   .head_dim = kHeadDim,
                   .window = window},
            .positions = host_ref<const std::int32_t>(positions.data()),
            .sequences = host_ref<const std::int32_t>(sequences.data()),
            .q_heads = 1,
            .rows = static_cast<std::int32_t>(positions.size())};
  }
  void value(std::int32_t key, float x) {
    for (int d = 0; d < kHeadDim; ++d) v[std::size_t(key) * kHeadDim + d] = x;
  }
};

class Attention : public ::testing::TestWithParam<std::tuple<Isa, AttentionVariant>> {
 protected:
  Attention() : queue_(device::open_cpu_queue({.threads = 2}).value()) {}
  // With room to share every row out.
  Status run(AttentionArgs args) {
    const auto [isa, variant] = GetParam();
    std::int64_t slices = 1;
    for (std::int32_t r = 0; r < args.rows; ++r) slices = std::max<std::int64_t>(slices, args.positions[r] < 1 << 20 ? args.positions[r] / kAttentionSlice + 1 : 1);
    args.partial_places = static_cast<std::int32_t>(args.rows * slices);
    partials_.assign(attention_partial_bytes(args.partial_places, args.q_heads, args.kv.head_dim) / 4, std::nanf(""));
    args.partials = host_ref(partials_.data());
    args.parts = 2;
    const KernelEntry* kernel = attention_kernel(variant, &args, device::Backend::cpu, isa);
    EXPECT_TRUE(isa_includes(isa, kernel->isa));
    return run_kernel(*queue_, *kernel, &args);
  }
  std::unique_ptr<device::CpuQueue> queue_;
  std::vector<float> partials_;
};

// All keys weigh the same and one has a value, so the output is 0 exactly where that key is not visible.
TEST_P(Attention, SeesExactlyTheWindow) {
  for (const std::int32_t window : {1, 2, 5, 64, 128}) {
    for (const std::int32_t key : {0, 1, 63, 64, 100}) {
      const std::vector<std::int32_t> rows = {key + window - 1, key + window, key};
      OneSequence s(key + window + 1, 16, window, rows);
      s.value(key, 1);
      ASSERT_TRUE(run(s.args).ok());
      EXPECT_GT(s.out[0], 0) << "q - k = window - 1 is visible; window " << window << " key " << key;
      EXPECT_EQ(s.out[8], 0) << "q - k = window is not; window " << window << " key " << key;
      EXPECT_GT(s.out[16], 0) << "a row sees itself";
    }
  }
}

TEST_P(Attention, SeesNothingOfTheFuture) {
  OneSequence s(200, 32, 0, {0, 63, 64, 150});
  for (std::int32_t key = 0; key < 200; ++key) s.value(key, key > 64 ? 1.0F : 0.0F);
  ASSERT_TRUE(run(s.args).ok());
  for (std::size_t r = 0; r < 3; ++r) EXPECT_EQ(s.out[r * 8], 0);
  EXPECT_GT(s.out[24], 0);
}

// A sink takes weight and gives no value; with the largest score by far it takes nearly all.
TEST_P(Attention, SinkJoinsTheMaximumAndTheDenominator) {
  OneSequence s(1, 16, 0, {0});
  s.value(0, 1);
  s.sinks = {0.0F};
  s.args.sinks = host_ref<const float>(s.sinks.data());
  ASSERT_TRUE(run(s.args).ok());
  EXPECT_FLOAT_EQ(s.out[0], 0.5F);  // exp(0) of exp(0) + exp(0)
  s.sinks = {200.0F};               // exp of it overflows: the maximum must be subtracted from it too
  ASSERT_TRUE(run(s.args).ok());
  EXPECT_NEAR(s.out[0], 0.0F, 1e-30F);
}

// How big the pages are must not change a bit: the order of the sum is by absolute position.
TEST_P(Attention, BitsDoNotDependOnThePageSize) {
  std::vector<float> first;
  for (const std::int32_t page_rows : {1, 4, 32, 64, 256}) {
    OneSequence s(256, page_rows, 100, {255, 130, 64, 12});
    conformance::Random random(7);
    for (float& x : s.k) x = 0.0F;
    std::vector<float> keys(256 * 8);
    std::vector<float> values(256 * 8);
    random.values(keys.data(), 256 * 8);
    random.values(values.data(), 256 * 8);
    std::copy(keys.begin(), keys.end(), s.k.begin());
    std::copy(values.begin(), values.end(), s.v.begin());
    ASSERT_TRUE(run(s.args).ok());
    if (first.empty()) first = s.out;
    EXPECT_EQ(first, s.out) << "page_rows " << page_rows;
  }
}

TEST_P(Attention, CountsAMissingPageAndLeavesItsKeysOut) {
  for (const std::int32_t bad : {kNoPage, 99}) {
    OneSequence s(64, 16, 0, {63, 20});
    for (std::int32_t key = 0; key < 64; ++key) s.value(key, 1.0F * static_cast<float>(key));
    s.table[2] = bad;  // keys 32..47: of the first row only
    const Status status = run(s.args);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::device_fault);
    const std::vector<float> got = s.out;
    reference(s.args);
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], s.out[i], 1e-4);
  }
}

// Where a slice or a stretch has no key at all, what it found is nothing: the first of a stretch, all of one, the last of a row.
TEST_P(Attention, LeavesOutSlicesAndStretchesWithoutAKey) {
  for (const bool sinks : {false, true}) {
    for (const auto& [from, to] : {std::pair{0, 256}, {2048, 2304}, {2048, 4096}, {0, 4096}, {4352, 4600}}) {
      OneSequence s(4600, 8, 0, {4599, 3000});
      conformance::Random random(11);
      random.values(s.k.data(), static_cast<std::int64_t>(s.k.size()));
      random.values(s.v.data(), static_cast<std::int64_t>(s.v.size()));
      s.sinks = {0.5F};
      if (sinks) s.args.sinks = host_ref<const float>(s.sinks.data());
      for (std::int32_t page = from / 8; page < to / 8; ++page) s.table[static_cast<std::size_t>(page)] = kNoPage;
      EXPECT_FALSE(run(s.args).ok());
      const std::vector<float> got = s.out;
      reference(s.args);
      for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], s.out[i], 1e-5) << from << " " << to;
    }
  }
}

// All keys weigh the same, so sums are of the values, which show the order that api/attention.h states: a first slice so large that ones are lost
// in it, the other slices of its stretch one each, and a second stretch of eight ones.
TEST_P(Attention, AddsSlicesToStretchesAndStretchesToTheRow) {
  OneSequence s(4096, 64, 0, {4095});
  s.value(5, 16777216);
  for (std::int32_t slice = 1; slice < 16; ++slice) s.value(slice * 256 + 17 * slice, 1);
  ASSERT_TRUE(run(s.args).ok());
  EXPECT_EQ(s.out[0], (16777216.0F + 8.0F) / 4096.0F);
}

TEST_P(Attention, CountsWhatIsOutOfBounds) {
  for (const std::int32_t position : {-1, 64, 1 << 30}) {  // behind the end of a full-attention table nothing wraps
    OneSequence s(64, 16, 0, {position});
    EXPECT_FALSE(run(s.args).ok()) << position;
    EXPECT_EQ(s.out, std::vector<float>(8, 0.0F)) << position;
  }
  OneSequence ring(64, 16, 60, {100});  // needs pages 2..6 and the ring has 4
  EXPECT_FALSE(run(ring.args).ok());
  OneSequence other(64, 16, 0, {3});
  other.sequences[0] = 1;
  EXPECT_FALSE(run(other.args).ok());
}

// A NaN in a visible key must reach the output, however the maximum treats it.
TEST_P(Attention, NanOfAVisibleKeyReachesTheOutput) {
  for (const std::int32_t key : {0, 7, 8, 40, 63}) {
    OneSequence s(64, 16, 0, {63});
    s.k[std::size_t(key) * 8] = std::nanf("");
    EXPECT_TRUE(run(s.args).ok());
    EXPECT_TRUE(std::isnan(s.out[0])) << key;
  }
  OneSequence only(1, 16, 0, {0});
  only.k[0] = std::nanf("");
  EXPECT_TRUE(run(only.args).ok());
  EXPECT_TRUE(std::isnan(only.out[0]));
}

INSTANTIATE_TEST_SUITE_P(Kernels, Attention, ::testing::Combine(::testing::ValuesIn(available_isas()), ::testing::ValuesIn(kAttentionVariants)),
                         [](const auto& p) {
                           return std::string(to_string(std::get<0>(p.param))) + "_" + std::string(to_string(std::get<1>(p.param)));
                         });

}  // namespace
}  // namespace plumb::kernels
