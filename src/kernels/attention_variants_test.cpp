// The attention kernels beside each other: the execution gate (1e-4 of a head's largest output, against serial in float32), bitwise
// repeat, and a negative control that shows what the gate can see. And more than the gate asks: they are bit-equal.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/conformance/checker.h"
#include "kernels/geometry/attention_plan.h"
#include "kernels/ref/kv_page.h"

namespace plumb::kernels {
namespace {

// One sequence of `keys` keys in pages of 16; rows at the given positions.
struct Problem {
  std::vector<std::byte> k, v;
  std::vector<float> q, out, partials;
  std::vector<float> sinks;
  std::vector<std::int32_t> table, positions, sequences;
  AttentionArgs args;

  Problem(const Problem&) = delete;  // args point into it
  Problem(KvFormat format, std::int32_t keys, std::vector<std::int32_t> rows, std::int32_t window, std::int32_t q_heads, std::int32_t kv_heads,
          std::int32_t head_dim)
      : positions(std::move(rows)), sequences(positions.size(), 0) {
    const std::int32_t pages = (keys + 15) / 16;
    for (std::int32_t p = 0; p < pages; ++p) table.push_back(pages - 1 - p);
    args.kv = {.k = {}, .v = {}, .table = host_ref<const std::int32_t>(table.data()), .format = format, .pages = pages, .page_rows = 16, .table_pages = pages,
               .sequences = 1, .kv_heads = kv_heads, .head_dim = head_dim, .window = window};
    k.resize(kv_pool_bytes(args.kv));
    v.resize(k.size());
    args.kv.k = host_ref(k.data());
    args.kv.v = host_ref(v.data());
    conformance::Random random(3);
    std::vector<float> row(static_cast<std::size_t>(head_dim));
    for (std::int32_t j = 0; j < keys; ++j) {
      for (std::int32_t h = 0; h < kv_heads; ++h) {
        for (std::byte* pool : {k.data(), v.data()}) {
          for (float& x : row) x = random.value() * 0.5F;
          kv_store(args.kv, pool, page_of(args.kv, 0, j), h, j % 16, row.data());
        }
      }
    }
    const std::size_t n = positions.size() * static_cast<std::size_t>(q_heads) * static_cast<std::size_t>(head_dim);
    q.resize(n);
    random.values(q.data(), static_cast<std::int64_t>(n));
    sinks.resize(static_cast<std::size_t>(q_heads));
    random.values(sinks.data(), q_heads);
    out.resize(n);
    args.partial_places = static_cast<std::int32_t>(positions.size()) * (keys / 256 + 2);
    partials.resize(attention_partial_bytes(args.partial_places, q_heads, head_dim) / 4);
    args.out = host_ref(out.data());
    args.q = host_ref<const float>(q.data());
    args.sinks = host_ref<const float>(sinks.data());
    args.positions = host_ref<const std::int32_t>(positions.data());
    args.sequences = host_ref<const std::int32_t>(sequences.data());
    args.partials = host_ref(partials.data());
    args.scale = 1.0F / std::sqrt(static_cast<float>(head_dim));
    args.q_heads = q_heads;
    args.rows = static_cast<std::int32_t>(positions.size());
  }

  std::vector<float> run(device::Queue& queue, AttentionVariant variant, Isa isa, std::int32_t parts = 1) {
    std::fill(out.begin(), out.end(), std::nanf(""));
    args.parts = parts;
    const KernelEntry* kernel = attention_kernel(variant, &args, device::Backend::cpu, isa);
    EXPECT_TRUE(conformance::run_kernel(queue, *kernel, &args).ok());
    return out;
  }

  // max |difference| / max |serial| of the worst head.
  double distance(const std::vector<float>& serial, const std::vector<float>& other) const {
    double worst = 0;
    const auto dim = static_cast<std::size_t>(args.kv.head_dim);
    for (std::size_t head = 0; head < serial.size() / dim; ++head) {
      double most = 0, difference = 0;
      for (std::size_t d = head * dim; d < (head + 1) * dim; ++d) {
        most = std::max(most, std::fabs(double{serial[d]}));
        difference = std::max(difference, std::fabs(double{serial[d]} - double{other[d]}));
      }
      worst = std::max(worst, difference / most);
    }
    return worst;
  }
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void held_to_serial(Problem& p, device::Queue& queue, Isa isa) {
  const std::vector<float> serial = p.run(queue, AttentionVariant::serial, isa);
  for (const AttentionVariant variant : kAttentionVariants) {
    for (const std::int32_t parts : {1, 2, 7}) {
      const std::vector<float> other = p.run(queue, variant, isa, parts);
      EXPECT_LT(p.distance(serial, other), 1e-4) << to_string(variant);
      EXPECT_TRUE(same_bits(serial, other)) << to_string(variant) << " parts " << parts << " window " << p.args.kv.window;
      EXPECT_TRUE(same_bits(other, p.run(queue, variant, isa, parts))) << to_string(variant) << " on repeat";
    }
  }
}

class Variants : public ::testing::TestWithParam<KvFormat> {};

TEST_P(Variants, PassTheGateAndAgreeWithSerialBitForBit) {
  const auto queue = device::open_cpu_queue({.threads = 3}).value();
  std::vector<std::int32_t> prompt;
  for (std::int32_t p = 600; p < 640; ++p) prompt.push_back(p);
  std::vector<std::int32_t> stretches;
  for (std::int32_t p = 4090; p < 4110; ++p) stretches.push_back(p);
  for (const Isa isa : {Isa::portable, best_isa()}) {
    for (const std::int32_t window : {0, 128}) {
      Problem problems[] = {{GetParam(), 1100, {1099}, window, 16, 4, 64},
                            {GetParam(), 640, prompt, window, 8, 1, 64},
                            {GetParam(), 900, {899, 255, 256, 0}, window, 5, 5, 72},
                            {GetParam(), 300, {299}, window, 12, 1, 128}};
      for (Problem& p : problems) held_to_serial(p, *queue, isa);
    }
    // Several stretches, whole and not, and windows that begin inside one.
    for (const std::int32_t window : {0, 700, 2500}) {
      Problem problems[] = {{GetParam(), 4700, {4699, 2047, 2048, 4096}, window, 4, 2, 64}, {GetParam(), 4110, stretches, window, 2, 1, 64}};
      for (Problem& p : problems) held_to_serial(p, *queue, isa);
    }
  }
}

// Sets differ in how many numbers a vector holds, not in the order of a sum.
TEST_P(Variants, AgreeBitForBitInEverySetOfVectors) {
  const auto queue = device::open_cpu_queue({.threads = 2}).value();
  std::vector<std::int32_t> prompt;
  for (std::int32_t p = 190; p < 210; ++p) prompt.push_back(p);
  Problem problems[] = {{GetParam(), 2600, {2598}, 0, 16, 4, 64}, {GetParam(), 300, {299, 130, 2, 0}, 128, 7, 1, 72}, {GetParam(), 210, prompt, 0, 3, 3, 40}};
  for (float& x : problems[1].q) x *= 60;  // scores so far apart that most weights are 0
  // portable comes first and does not fuse multiply and add: it is held to itself, the others to the first of them.
  for (Problem& p : problems) {
    const std::vector<float> portable = p.run(*queue, AttentionVariant::serial, Isa::portable);
    std::vector<float> vectors;
    for (const Isa isa : available_isas()) {
      if (isa != Isa::portable && vectors.empty()) vectors = p.run(*queue, AttentionVariant::serial, isa);
      for (const AttentionVariant variant : kAttentionVariants) {
        EXPECT_TRUE(same_bits(isa == Isa::portable ? portable : vectors, p.run(*queue, variant, isa))) << to_string(variant) << " " << to_string(isa);
      }
    }
  }
}

// A NaN in a query, a key or a value reaches the outputs of its heads, in every form, and no others.
TEST_P(Variants, WhatIsNotANumberReachesItsHeads) {
  const auto queue = device::open_cpu_queue({.threads = 2}).value();
  std::vector<float> row(64, 0.25F);
  row[17] = std::nanf("");
  for (const Isa isa : available_isas()) {
    for (const AttentionVariant variant : kAttentionVariants) {
      for (const char what : {'q', 'k', 'v'}) {
        Problem p(GetParam(), 200, {199, 198}, 0, 4, 2, 64);
        if (what == 'q') std::copy(row.begin(), row.end(), p.q.begin() + 64);  // head 1 of the first row
        // A key of KV head 0 that both rows see.
        if (what != 'q') kv_store(p.args.kv, what == 'k' ? p.k.data() : p.v.data(), page_of(p.args.kv, 0, 130), 0, 130 % 16, row.data());
        const std::vector<float> out = p.run(*queue, variant, isa, 2);
        for (std::size_t head = 0; head < 8; ++head) {
          const bool bad = what == 'q' ? head == 1 : head % 4 < 2;
          for (const std::size_t d : {17, 60}) {
            // A value's NaN is its element's, but q8 has a scale for the whole row.
            const bool expected = bad && (what != 'v' || d == 17 || GetParam() == KvFormat::q8);
            EXPECT_EQ(std::isnan(out[head * 64 + d]), expected) << what << " head " << head << " element " << d << " " << to_string(variant) << " " << to_string(isa);
          }
        }
      }
    }
  }
}

TEST_P(Variants, TheGateSeesOnePerturbedRowOfV) {
  const auto queue = device::open_cpu_queue({.threads = 2}).value();
  Problem p(GetParam(), 40, {39}, 0, 4, 1, 64);
  const std::vector<float> serial = p.run(*queue, AttentionVariant::serial, best_isa());
  std::vector<float> row(64);
  for (std::int64_t d = 0; d < 64; ++d) {
    row[static_cast<std::size_t>(d)] = static_cast<float>(kv_load(p.args.kv, p.v.data(), page_of(p.args.kv, 0, 20), 0, 20 % 16, d)) + 1.0F;
  }
  kv_store(p.args.kv, p.v.data(), page_of(p.args.kv, 0, 20), 0, 20 % 16, row.data());
  for (const AttentionVariant variant : kAttentionVariants) {
    const double seen = p.distance(serial, p.run(*queue, variant, best_isa(), 2));
    EXPECT_GT(seen, 1e-2) << to_string(variant);
    EXPECT_LT(seen, 1) << to_string(variant);
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, Variants, ::testing::ValuesIn(kKvFormats), [](const auto& p) { return std::string(to_string(p.param)); });

}  // namespace
}  // namespace plumb::kernels
