// What a recurrent state remembers, and that its bits depend on nothing but the rows that went through it.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/conformance/checker.h"
#include "kernels/table.h"

namespace plumb::kernels {
namespace {

using conformance::run_kernel;

// Rows of several sequences with their inputs, and slots of state.
struct Layer {
  std::int32_t heads = 2, key_dim = 8, value_dim = 8, slots = 4;
  std::vector<float> q, k, v, decay, beta, out;
  std::vector<std::int32_t> sequences;
  std::vector<std::int32_t> state_slots = {0, 1, 2, 3};
  std::vector<float> state;

  explicit Layer(std::vector<std::int32_t> rows) : sequences(std::move(rows)) { resize(); }
  void resize() {
    const std::size_t n = sequences.size() * static_cast<std::size_t>(heads);
    q.assign(n * static_cast<std::size_t>(key_dim), 0.0F);
    k = q;
    v.assign(n * static_cast<std::size_t>(value_dim), 0.0F);
    out = v;
    decay.assign(n, -1000.0F);  // forgets nothing
    beta.assign(n, 1000.0F);    // moves all the way
    state.assign(static_cast<std::size_t>(slots * heads * key_dim * value_dim), 0.0F);
  }
  void randomise(std::uint64_t seed) {
    conformance::Random random(seed);
    for (auto* values : {&q, &k, &v, &beta}) random.values(values->data(), static_cast<std::int64_t>(values->size()));
    for (float& d : decay) d = random.value() - 2;
  }
  // Rows [first, first + count).
  GatedDeltaArgs args(std::int64_t first, std::int32_t count) {
    const std::int64_t row = first * heads;
    return {.out = host_ref(out.data() + row * value_dim),
            .state = host_ref(reinterpret_cast<std::byte*>(state.data())),
            .q = host_ref<const float>(q.data() + row * key_dim),
            .k = host_ref<const float>(k.data() + row * key_dim),
            .v = host_ref<const float>(v.data() + row * value_dim),
            .decay = host_ref<const float>(decay.data() + row),
            .beta = host_ref<const float>(beta.data() + row),
            .sequences = host_ref<const std::int32_t>(sequences.data() + first),
            .state_slots = host_ref<const std::int32_t>(state_slots.data()),
            .sequence_count = static_cast<std::int32_t>(state_slots.size()),
            .slots = slots,
            .heads = heads,
            .key_dim = key_dim,
            .value_dim = value_dim,
            .rows = count};
  }
  GatedDeltaArgs args() { return args(0, static_cast<std::int32_t>(sequences.size())); }
};

class GatedDelta : public ::testing::TestWithParam<Isa> {
 protected:
  GatedDelta() : queue_(device::open_cpu_queue({.threads = 2}).value()) {}
  Status run(const GatedDeltaArgs& args) {
    const auto kernel = select_kernel(op<GatedDeltaArgs>(), &args, device::Backend::cpu, GetParam());
    EXPECT_TRUE(isa_includes(GetParam(), (*kernel)->isa));
    return run_kernel(*queue_, **kernel, &args);
  }
  std::unique_ptr<device::CpuQueue> queue_;
};

// With keys at right angles and gates wide open the state is a dictionary: ask with a key, get the value last stored there.
TEST_P(GatedDelta, AnswersWithTheValueLastStoredUnderAKey) {
  Layer l({0, 0, 0, 0, 0});
  l.heads = 1;
  l.resize();
  const int keys[] = {3, 5, 3, 0, 0};
  const int asks[] = {3, 3, 3, 5, 6};
  const float values[] = {10, 20, 30, 40, 50};
  const float answers[] = {10, 10, 30, 20, 0};  // the third row replaces what the first stored; nobody stored under 6
  for (std::size_t r = 0; r < 5; ++r) {
    l.k[r * 8 + static_cast<std::size_t>(keys[r])] = 7;  // lengths do not matter
    l.q[r * 8 + static_cast<std::size_t>(asks[r])] = 0.25F;
    for (std::size_t j = 0; j < 8; ++j) l.v[r * 8 + j] = values[r] + static_cast<float>(j);
  }
  ASSERT_TRUE(run(l.args()).ok());
  for (std::size_t r = 0; r < 5; ++r) {
    for (std::size_t j = 0; j < 8; ++j) {
      EXPECT_NEAR(l.out[r * 8 + j], answers[r] + (answers[r] > 0 ? static_cast<float>(j) : 0), 1e-3) << r;
    }
  }
}

// Nothing is stored, alpha = exp(-softplus(0)) = 1/2: the state halves with each row.
TEST_P(GatedDelta, ForgetsByAlpha) {
  Layer l({1, 1, 1});
  std::fill(l.decay.begin(), l.decay.end(), 0.0F);
  std::fill(l.beta.begin(), l.beta.end(), -1000.0F);
  std::fill(l.state.begin() + 2 * 64, l.state.begin() + 4 * 64, 1.0F);  // slot 1
  for (std::size_t i = 0; i < l.q.size(); i += 8) l.q[i] = 1;
  ASSERT_TRUE(run(l.args()).ok());
  EXPECT_NEAR(l.out[0], 0.5, 1e-5);
  EXPECT_NEAR(l.out[16], 0.25, 1e-5);
  EXPECT_NEAR(l.out[32], 0.125, 1e-5);
  EXPECT_FLOAT_EQ(l.state[2 * 64], 0.125F);
  EXPECT_EQ(l.state[0], 0);
}

// One prompt in one step, in two of every size, and row by row; alone, and among rows of other sequences.
TEST_P(GatedDelta, BitsDoNotDependOnStepsOrOnOtherSequences) {
  for (const auto& [key_dim, value_dim] : {std::pair{8, 8}, {16, 72}, {7, 13}}) {
    const auto prompt = [&, k = key_dim, v = value_dim](std::vector<std::int32_t> rows) {
      Layer l(std::move(rows));
      l.key_dim = k;
      l.value_dim = v;
      l.resize();
      return l;
    };
    Layer whole = prompt(std::vector<std::int32_t>(11));
    whole.randomise(5);
    const Layer start = whole;
    ASSERT_TRUE(run(whole.args()).ok());
    for (std::int32_t cut = 1; cut < 11; ++cut) {
      Layer split = start;
      ASSERT_TRUE(run(split.args(0, cut)).ok());
      ASSERT_TRUE(run(split.args(cut, 11 - cut)).ok());
      EXPECT_EQ(split.out, whole.out) << cut;
      EXPECT_EQ(split.state, whole.state) << cut;
    }

    // Row r of the prompt is row 2r + 1 here, of sequence 3 in slot 1; the others are sequence 0 in slot 2.
    Layer among = prompt(std::vector<std::int32_t>(22));
    among.randomise(6);
    among.state_slots = {2, kNoStateSlot, kNoStateSlot, 1};
    const auto place = [&](const std::vector<float>& from, std::vector<float>& to) {
      const std::size_t width = from.size() / 11;
      for (std::size_t r = 0; r < 11; ++r) std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(r * width), width, to.begin() + static_cast<std::ptrdiff_t>((2 * r + 1) * width));
    };
    for (std::size_t r = 0; r < 11; ++r) among.sequences[2 * r + 1] = 3;
    place(start.q, among.q);
    place(start.k, among.k);
    place(start.v, among.v);
    place(start.decay, among.decay);
    place(start.beta, among.beta);
    ASSERT_TRUE(run(among.args()).ok());
    std::vector<float> theirs = among.out;
    place(whole.out, theirs);
    EXPECT_EQ(among.out, theirs);
    const std::size_t slot = whole.state.size() / 4;
    EXPECT_EQ(std::memcmp(among.state.data() + slot, whole.state.data(), slot * 4), 0);
  }
}

TEST_P(GatedDelta, NanOfTheStateReachesTheOutput) {
  for (const std::size_t cell : {0U, 17U, 63U}) {
    Layer l({2});
    l.randomise(3);
    l.state[2 * 128 + cell] = std::nanf("");
    ASSERT_TRUE(run(l.args()).ok());
    EXPECT_TRUE(std::isnan(l.out[cell % 8])) << cell;
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, GatedDelta, ::testing::ValuesIn(available_isas()),
                         [](const auto& isa) { return std::string(to_string(isa.param)); });

}  // namespace
}  // namespace plumb::kernels
