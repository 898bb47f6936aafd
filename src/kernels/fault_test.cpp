// Indices and values that come from outside: clamped or skipped, and counted, so that the step fails.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/conformance/checker.h"
#include "kernels/table.h"

namespace plumb::kernels {
namespace {

class Faults : public ::testing::TestWithParam<Isa> {
 protected:
  Faults() : queue_(device::open_cpu_queue({.threads = 2}).value()) {}

  template <class Args>
  const KernelEntry& kernel(const Args& args) {
    return **select_kernel(op<Args>(), &args, device::Backend::cpu, GetParam());
  }
  template <class Args>
  Status run(const Args& args) {
    return conformance::run_kernel(*queue_, kernel(args), &args);
  }
  std::unique_ptr<device::CpuQueue> queue_;
};

void is_fault(const Status& status) {
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::device_fault);
}

TEST_P(Faults, EmbedClampsATokenAndACell) {
  const std::vector<float> table = {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 14, 15, 16, 17, 18};
  std::vector<float> out(16);
  const std::vector<std::int32_t> relay = {1, kInvalidToken};
  const auto embed = [&](std::vector<std::int32_t> tokens, std::vector<std::int32_t> sources) {
    return run(EmbedArgs{.out = host_ref(out.data()),
                         .tokens = host_ref<const std::int32_t>(tokens.data()),
                         .sources = host_ref<const std::int32_t>(sources.data()),
                         .relay = host_ref<const std::int32_t>(relay.data()),
                         .table = {.data = host_ref(reinterpret_cast<const std::byte*>(table.data())),
                                   .rows = 2,
                                   .cols = 8,
                                   .row_stride = 32},
                         .relay_cells = 2,
                         .rows = 2});
  };
  EXPECT_TRUE(embed({0, -7}, {-1, 0}).ok());  // the second comes from the relay: its own token is not looked at
  EXPECT_EQ(out[0], 1);
  EXPECT_EQ(out[8], 11);
  is_fault(embed({1, 2}, {-1, -1}));
  EXPECT_EQ(out[8], 1);
  is_fault(embed({1, -1}, {-1, -1}));
  is_fault(embed({1, 0}, {-1, 2}));
  is_fault(embed({1, 0}, {-1, 1}));  // the cell holds the sentinel of a faulted step: the fault passes on
}

TEST_P(Faults, GatherClampsAnIndex) {
  const std::vector<float> in = {1, 2, 3, 4};
  std::vector<float> out(4);
  for (const std::int32_t bad : {-1, 2, std::numeric_limits<std::int32_t>::max()}) {
    const std::vector<std::int32_t> indices = {bad, 1};
    is_fault(run(GatherArgs{.out = host_ref(out.data()),
                            .in = host_ref<const float>(in.data()),
                            .indices = host_ref<const std::int32_t>(indices.data()),
                            .in_rows = 2,
                            .cols = 2,
                            .rows = 2}));
    EXPECT_EQ(out, (std::vector<float>{1, 2, 3, 4}));
  }
}

TEST_P(Faults, MoeGroupClampsAnExpert) {
  const std::vector<std::int32_t> experts = {2, 3, -1, 1};
  std::vector<std::int32_t> offsets(4), order(4);
  is_fault(run(MoeGroupArgs{.offsets = host_ref(offsets.data()),
                            .order = host_ref(order.data()),
                            .experts = host_ref<const std::int32_t>(experts.data()),
                            .expert_count = 3,
                            .top_k = 1,
                            .rows = 4}));
  EXPECT_EQ(offsets, (std::vector<std::int32_t>{0, 2, 3, 4}));
  EXPECT_EQ(order, (std::vector<std::int32_t>{1, 2, 3, 0}));
}

TEST_P(Faults, MoeDownSkipsBadGroupsAndPairs) {
  const std::vector<float> weight(2 * 8, 1.0F);
  const std::vector<float> in(2 * 8, 1.0F);
  const auto down = [&](std::vector<std::int32_t> offsets, std::vector<std::int32_t> order, std::vector<float>& out) {
    out.assign(2, -1);
    return run(MoeDownArgs{.out = host_ref(out.data()),
                           .in = host_ref<const float>(in.data()),
                           .offsets = host_ref<const std::int32_t>(offsets.data()),
                           .order = host_ref<const std::int32_t>(order.data()),
                           .down = {.data = host_ref(reinterpret_cast<const std::byte*>(weight.data())),
                                    .rows = 1,
                                    .cols = 8,
                                    .experts = 2,
                                    .row_stride = 32,
                                    .expert_stride = 32},
                           .top_k = 1,
                           .rows = 2});
  };
  std::vector<float> out;
  EXPECT_TRUE(down({0, 1, 2}, {1, 0}, out).ok());
  EXPECT_EQ(out, (std::vector<float>{8, 8}));
  is_fault(down({0, 1, 3}, {1, 0}, out));   // a range behind the last pair
  EXPECT_EQ(out, (std::vector<float>{-1, 8}));
  is_fault(down({0, -1, 2}, {1, 0}, out));
  is_fault(down({2, 1, 2}, {1, 0}, out));   // a range that ends before it begins, both inside
  EXPECT_EQ(out, (std::vector<float>{8, -1}));
  is_fault(down({0, 1, 2}, {2, 0}, out));   // a pair that is none
  EXPECT_EQ(out, (std::vector<float>{8, -1}));
}

TEST_P(Faults, KvAppendWritesNothingWithoutAPage) {
  std::vector<std::byte> k(2 * 4 * 8 * 4, std::byte{0x55}), v = k;
  const std::vector<std::byte> before = k;
  const std::vector<float> new_kv(8, 1.0F);
  std::vector<std::int32_t> table = {kNoPage, 1};
  const auto append = [&](std::int32_t position, std::int32_t sequence) {
    return run(KvAppendArgs{.kv = {.k = host_ref(k.data()), .v = host_ref(v.data()), .table = host_ref<const std::int32_t>(table.data()),
                                   .pages = 2, .page_rows = 4, .table_pages = 2, .sequences = 1, .kv_heads = 1, .head_dim = 8},
                            .k = host_ref<const float>(new_kv.data()),
                            .v = host_ref<const float>(new_kv.data()),
                            .positions = host_ref<const std::int32_t>(&position),
                            .sequences = host_ref<const std::int32_t>(&sequence),
                            .rows = 1});
  };
  is_fault(append(0, 0));   // no page
  is_fault(append(8, 0));   // behind the table
  is_fault(append(-1, 0));
  is_fault(append(4, 1));
  is_fault(append(4, -2));
  EXPECT_TRUE(append(4, -1).ok());  // told to skip
  EXPECT_EQ(k, before);
  EXPECT_EQ(v, before);
  EXPECT_TRUE(append(4, 0).ok());
  EXPECT_NE(k, before);
}

TEST_P(Faults, GatedDeltaSkipsARowWithoutAState) {
  std::vector<float> state(2 * 4 * 8, 0.5F);
  const std::vector<float> before = state;
  const std::vector<float> key(2 * 4, 1.0F);
  const std::vector<float> value(2 * 8, 1.0F);
  const std::vector<float> gate(2, 1.0F);
  std::vector<float> out;
  const auto step = [&](std::vector<std::int32_t> sequences, std::vector<std::int32_t> slots) {
    out.assign(2 * 8, -1.0F);
    return run(GatedDeltaArgs{.out = host_ref(out.data()),
                              .state = host_ref(reinterpret_cast<std::byte*>(state.data())),
                              .q = host_ref<const float>(key.data()),
                              .k = host_ref<const float>(key.data()),
                              .v = host_ref<const float>(value.data()),
                              .decay = host_ref<const float>(gate.data()),
                              .beta = host_ref<const float>(gate.data()),
                              .sequences = host_ref<const std::int32_t>(sequences.data()),
                              .state_slots = host_ref<const std::int32_t>(slots.data()),
                              .sequence_count = static_cast<std::int32_t>(slots.size()),
                              .slots = 2,
                              .heads = 1,
                              .key_dim = 4,
                              .value_dim = 8,
                              .rows = 2});
  };
  for (const std::vector<std::int32_t>& sequences : std::vector<std::vector<std::int32_t>>{{0, 0}, {2, -1}, {2, 3}}) {
    is_fault(step(sequences, {kNoStateSlot, 1, 2}));
    EXPECT_EQ(out, std::vector<float>(2 * 8));
    EXPECT_EQ(state, before);
  }
  is_fault(step({0, 1}, {kNoStateSlot, 1}));  // the other row is computed all the same
  EXPECT_EQ(std::vector<float>(out.begin(), out.begin() + 8), std::vector<float>(8));
  EXPECT_NE(out[8], 0);
  EXPECT_TRUE(std::equal(state.begin(), state.begin() + 4 * 8, before.begin()));
  EXPECT_NE(state[4 * 8], 0.5F);
  EXPECT_TRUE(step({0, 1}, {1, 0}).ok());
}

struct Sampler {
  std::vector<float> logits = {0, 3, 1, 2, 0, 5, 5, -1, 0};
  SampleParams params;
  std::int32_t cell = 1;
  std::vector<std::int32_t> relay = {70, 71};
  std::int32_t out = 99;
  SampleArgs args() {
    return {.out = host_ref(&out), .relay = host_ref(relay.data()), .logits = host_ref<const float>(logits.data()),
            .params = host_ref<const SampleParams>(&params), .relay_cells_of = host_ref<const std::int32_t>(&cell),
            .relay_cells = 2, .vocab = static_cast<std::int32_t>(logits.size()), .rows = 1};
  }
};

TEST_P(Faults, SampleOfNonFiniteLogitsIsInvalidAndCounted) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
    for (const std::size_t at : {0U, 7U, 8U}) {
      Sampler s;
      s.logits[at] = bad;
      is_fault(run(s.args()));
      EXPECT_EQ(s.out, kInvalidToken);
      EXPECT_EQ(s.relay, (std::vector<std::int32_t>{70, kInvalidToken}));
    }
  }
  Sampler fine;
  EXPECT_TRUE(run(fine.args()).ok());
  EXPECT_EQ(fine.out, 5);  // a tie goes to the lower id
  EXPECT_EQ(fine.relay, (std::vector<std::int32_t>{70, 5}));
  fine.cell = 2;
  is_fault(run(fine.args()));
  EXPECT_EQ(fine.relay, (std::vector<std::int32_t>{70, 5}));
}

// An earlier launch of the buffer counts a fault: no token comes out of the step.
TEST_P(Faults, SampleAfterAFaultIsInvalid) {
  Sampler s;
  const SampleArgs args = s.args();
  const std::vector<float> in = {1};
  float out = 0;
  const std::int32_t index = 5;
  const GatherArgs gather{.out = host_ref(&out), .in = host_ref<const float>(in.data()),
                          .indices = host_ref<const std::int32_t>(&index), .in_rows = 1, .cols = 1, .rows = 1};
  auto buffer = queue_->begin({});
  ASSERT_TRUE(buffer.ok());
  ASSERT_TRUE((*buffer)->launch({.kernel = &kernel(gather).kernel, .args = &gather, .args_bytes = sizeof gather}).ok());
  ASSERT_TRUE((*buffer)->launch({.kernel = &kernel(args).kernel, .args = &args, .args_bytes = sizeof args}).ok());
  is_fault(queue_->submit(std::move(*buffer)).wait());
  EXPECT_EQ(s.out, kInvalidToken);
  EXPECT_EQ(s.relay[1], kInvalidToken);
}

// The draw is a function of (logits, seed, choice, position): each of the three matters, and the frequencies are right.
TEST_P(Faults, DrawsFollowTheProbabilities) {
  Sampler s;
  s.logits = {0, 1, 2};
  s.params.temperature = 1;
  const double total = 1 + std::exp(1.0) + std::exp(2.0);
  for (int vary = 0; vary < 3; ++vary) {
    std::vector<int> seen(3);
    for (std::int32_t i = 0; i < 3000; ++i) {
      s.params.seed = vary == 0 ? static_cast<std::uint64_t>(i) : 5;
      s.params.choice = vary == 1 ? i : 0;
      s.params.position = vary == 2 ? i : 0;
      ASSERT_TRUE(run(s.args()).ok());
      ++seen[static_cast<std::size_t>(s.out)];
    }
    // Four standard deviations of 3,000 draws; the numbers are the same on every run.
    for (std::size_t t = 0; t < 3; ++t) {
      const double p = std::exp(static_cast<double>(t)) / total;
      EXPECT_NEAR(seen[t], 3000 * p, 4 * std::sqrt(3000 * p * (1 - p))) << "token " << t << " varying " << vary;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, Faults, ::testing::ValuesIn(available_isas()),
                         [](const auto& isa) { return std::string(to_string(isa.param)); });

}  // namespace
}  // namespace plumb::kernels
