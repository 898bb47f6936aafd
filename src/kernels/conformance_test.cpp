// Every kernel of the table on every shape case of its op, and proof that the suite can fail: one wrong kernel for each class of
// error, each of which must be caught.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "kernels/conformance/checker.h"
#include "kernels/conformance/shape_case.h"
#include "kernels/table.h"

namespace plumb::kernels::conformance {

std::vector<ShapeCase> all_cases() {
  std::vector<ShapeCase> cases;
  for (auto* part : {matmul_cases, moe_cases, row_cases, attention_cases, gated_delta_cases, sample_cases, q8_cases}) {
    for (ShapeCase& c : part()) cases.push_back(std::move(c));
  }
  return cases;
}

namespace {

std::string joined(const std::vector<std::string>& lines) {
  std::string all;
  for (const std::string& line : lines) all += "\n    " + line;
  return all;
}

// One test for each op and instruction set, so that a failure names both and the work can be spread.
struct Target {
  const OpDesc* op;
  Isa isa;
};
bool has_kernel(const OpDesc& op, Isa isa) {
  return std::any_of(all_kernels().begin(), all_kernels().end(), [&](const KernelEntry& k) { return k.op == &op && k.isa == isa; });
}
// Sets with a kernel of their own for every op; the others take what they do not have from below.
bool is_complete(Isa isa) { return isa == Isa::portable || isa == Isa::avx2 || isa == Isa::neon; }
std::vector<Target> targets() {
  std::vector<Target> list;
  for (const OpDesc* op : all_ops()) {
    for (const Isa isa : available_isas()) {
      if (is_complete(isa) || has_kernel(*op, isa)) list.push_back({op, isa});
    }
  }
  return list;
}

class Conformance : public ::testing::TestWithParam<Target> {};

TEST_P(Conformance, EveryKernelOnEveryShapeCase) {
  Checker checker;
  std::map<std::string, int> ran;  // by kernel
  for (const KernelEntry& kernel : all_kernels()) {
    if (kernel.op == GetParam().op && kernel.isa == GetParam().isa) ran[kernel.kernel.name] = 0;
  }
  ASSERT_FALSE(ran.empty()) << "an op without a kernel";
  for (const ShapeCase& c : all_cases()) {
    if (c.op != GetParam().op) continue;
    for (const KernelEntry& kernel : all_kernels()) {
      if (kernel.op != c.op || kernel.isa != GetParam().isa || !kernel.accepts(c.args.data())) continue;
      const auto problems = checker.check(kernel, c);
      EXPECT_TRUE(problems.empty()) << kernel.kernel.name << " on " << c.name << joined(problems);
      ++ran[kernel.kernel.name];
    }
  }
  for (const auto& [name, cases] : ran) EXPECT_GE(cases, 3) << name << " has too few shape cases to mean anything";
}

INSTANTIATE_TEST_SUITE_P(Kernels, Conformance, ::testing::ValuesIn(targets()), [](const auto& target) {
  return std::string(target.param.op->name) + "_" + std::string(to_string(target.param.isa));
});

// --- the suite itself -------------------------------------------------------------------------------------------------

const KernelEntry& honest(const OpDesc& op, const void* args) {
  auto selected = select_kernel(op, args, device::Backend::cpu, Isa::portable);
  PLUMB_CHECK(selected.ok());
  return **selected;
}
// Runs the honest kernel of changed arguments.
template <class Args>
void run_honest(const Args& args, device::Worker& w) {
  reinterpret_cast<device::CpuKernelFn>(const_cast<void*>(honest(op<Args>(), &args).kernel.entry))(&args, w);
}

template <class Args, void (*F)(const Args&, device::Worker&)>
KernelEntry wrong(const char* name) {
  return {&op<Args>(), {name, device::Backend::cpu, reinterpret_cast<const void*>(&device::cpu_entry<Args, F>)}, Isa::portable,
          [](const void*) { return true; }};
}

void window_one_too_wide(const AttentionArgs& a, device::Worker& w) {
  AttentionArgs changed = a;
  if (a.kv.window > 0) ++changed.kv.window;
  run_honest(changed, w);
}
void window_one_too_narrow(const AttentionArgs& a, device::Worker& w) {
  AttentionArgs changed = a;
  if (a.kv.window > 1) --changed.kv.window;
  run_honest(changed, w);
}
void no_sink(const AttentionArgs& a, device::Worker& w) {
  AttentionArgs changed = a;
  changed.sinks = {};
  run_honest(changed, w);
}
void neighbour_kv_head(const AttentionArgs& a, device::Worker& w) {
  AttentionArgs changed = a;
  std::vector<std::byte> k(kv_pool_bytes(a.kv));
  for (std::int32_t page = 0; page < a.kv.pages; ++page) {
    for (int head = 0; head < a.kv.kv_heads; ++head) {
      const std::int64_t neighbour = kv_block(a.kv, page, (head + 1) % a.kv.kv_heads);
      std::memcpy(k.data() + kv_block(a.kv, page, head), a.kv.k.get() + neighbour, static_cast<std::size_t>(kv_block_bytes(a.kv)));
    }
  }
  changed.kv.k = host_ref(k.data());
  run_honest(changed, w);
}

// A plain loop to plant errors in. `last` elements of k are left out; `split_order` reads mxfp4 nibbles as 2j, 2j + 1.
void plain_matmul(const MatmulArgs& a, int left_out) {
  WeightView w = a.weight;
  for (std::int64_t r = 0; r < a.rows; ++r) {
    for (std::int64_t n = 0; n < w.rows; ++n) {
      double sum = a.bias ? a.bias[n] : 0.0F;
      if (a.accumulate != 0) sum += a.out[r * w.rows + n];
      WeightView one = w;
      one.rows = 1;
      one.data.at += static_cast<std::uint64_t>(n * w.row_stride);
      one.scales.at += one.scales ? static_cast<std::uint64_t>(n * w.scale_row_stride) : 0;
      float product = 0;
      std::vector<float> in(a.in.get() + r * w.cols, a.in.get() + (r + 1) * w.cols);
      for (int i = 0; i < left_out; ++i) in[in.size() - 1 - static_cast<std::size_t>(i)] = 0;
      op<MatmulArgs>().reference(std::array{MatmulArgs{
          .out = host_ref(&product), .in = host_ref<const float>(in.data()), .weight = one, .rows = 1}}.data());
      a.out[r * w.rows + n] = static_cast<float>(sum + product);
    }
  }
}
void last_block_skipped(const MatmulArgs& a, device::Worker& w) {
  if (w.index() == 0) plain_matmul(a, a.weight.cols >= 32 ? 32 : 0);
}
void tail_dropped(const MatmulArgs& a, device::Worker& w) {
  if (w.index() == 0) plain_matmul(a, a.weight.cols % 8);
}
void nibbles_in_the_other_order(const MatmulArgs& a, device::Worker& w) {
  if (w.index() != 0) return;
  // Reads a 17-byte block's codes as the split format does: swaps the activations instead of the weights.
  std::vector<float> in(static_cast<std::size_t>(a.rows) * a.weight.cols);
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::size_t element = i % 32;
    const std::size_t other = element < 16 ? 2 * element : 2 * (element - 16) + 1;
    in[i] = a.in[static_cast<std::int64_t>(i - element + other)];
  }
  MatmulArgs changed = a;
  changed.in = host_ref<const float>(in.data());
  plain_matmul(changed, 0);
}
void one_float_too_many(const MatmulArgs& a, device::Worker& w) {
  run_honest(a, w);
  if (w.index() == 0) a.out[std::int64_t{a.rows} * a.weight.rows] = 0;
}
void one_float_before(const MatmulArgs& a, device::Worker& w) {
  run_honest(a, w);
  if (w.index() == 0) a.out[-1] = 0;
}
void writes_its_input(const MatmulArgs& a, device::Worker& w) {
  run_honest(a, w);
  if (w.index() == 0) const_cast<float*>(a.in.get())[0] += 1;
}
void bias_forgotten(const MatmulArgs& a, device::Worker& w) {
  MatmulArgs changed = a;
  changed.bias = {};
  run_honest(changed, w);
}
void residual_forgotten(const MatmulArgs& a, device::Worker& w) {
  MatmulArgs changed = a;
  changed.accumulate = 0;
  run_honest(changed, w);
}
void one_row_too_many(const MatmulArgs& a, device::Worker& w) {
  MatmulArgs changed = a;
  ++changed.rows;
  run_honest(changed, w);
}
// Right within the bound, but the order of the sum depends on how many rows there are.
void order_depends_on_rows(const MatmulArgs& a, device::Worker& w) {
  if (w.index() != 0) return;
  for (std::int64_t i = 0; i < std::int64_t{a.rows} * a.weight.rows; ++i) {
    const float before = a.accumulate != 0 ? a.out[i] : 0;
    MatmulArgs one = a;
    one.rows = 1;
    one.accumulate = 0;
    one.bias = {};
    one.in.at += static_cast<std::uint64_t>(i / a.weight.rows * a.weight.cols) * 4;
    one.weight.rows = 1;
    one.weight.data.at += static_cast<std::uint64_t>(i % a.weight.rows * a.weight.row_stride);
    one.weight.scales.at += a.weight.scales ? static_cast<std::uint64_t>(i % a.weight.rows * a.weight.scale_row_stride) : 0;
    float whole = 0;
    one.out = host_ref(&whole);
    op<MatmulArgs>().reference(&one);
    const float bias = a.bias ? a.bias[i % a.weight.rows] : 0;
    a.out[i] = a.rows == 1 ? whole + bias + before : whole + (bias + before);
  }
}
// Splits a sum among the workers, so that its rounding depends on how many there are.
void order_depends_on_threads(const RmsNormArgs& a, device::Worker& w) {
  run_honest(a, w);
  if (w.index() == 0 && w.count() == 3) a.out[0] = std::nextafter(a.out[0], 1e30F);
}
void gate_clamped_below(const GluArgs& a, device::Worker& w) {
  std::vector<float> gate(a.gate.get(), a.gate.get() + std::int64_t{a.rows} * a.cols);
  if (a.spec.kind == GluKind::clamped_silu) {
    for (float& g : gate) g = g < -a.spec.limit ? -a.spec.limit : g;
  }
  GluArgs changed = a;
  changed.gate = host_ref<const float>(gate.data());
  run_honest(changed, w);
}
void ties_to_the_higher_expert(const RouteArgs& a, device::Worker& w) {
  if (w.index() != 0) return;
  op<RouteArgs>().reference(&a);
  for (std::int64_t r = 0; r < a.rows; ++r) {
    std::int32_t& first = a.experts[r * a.top_k];
    for (std::int32_t e = first + 1; e < a.expert_count; ++e) {
      if (a.logits[r * a.expert_count + e] == a.logits[r * a.expert_count + first]) first = e;
    }
  }
}
void rope_pairs_confused(const RopeArgs& a, device::Worker& w) {
  RopeArgs changed = a;
  changed.pairing = a.pairing == RopePairing::halves ? RopePairing::adjacent : RopePairing::halves;
  run_honest(changed, w);
}
void writes_a_skipped_row(const KvAppendArgs& a, device::Worker& w) {
  std::vector<std::int32_t> sequences(a.sequences.get(), a.sequences.get() + a.rows);
  for (std::int32_t& s : sequences) s = s < 0 ? 0 : s;
  KvAppendArgs changed = a;
  changed.sequences = host_ref<const std::int32_t>(sequences.data());
  run_honest(changed, w);
}
void choice_ignored(const SampleArgs& a, device::Worker& w) {
  std::vector<SampleParams> params(a.params.get(), a.params.get() + a.rows);
  for (SampleParams& p : params) p.choice = 0;
  SampleArgs changed = a;
  changed.params = host_ref<const SampleParams>(params.data());
  run_honest(changed, w);
}
void down_bias_of_expert_0(const MoeDownArgs& a, device::Worker& w) {
  if (w.index() != 0) return;
  MoeDownArgs changed = a;
  std::vector<float> bias(static_cast<std::size_t>(a.down.experts) * a.down.rows);
  if (a.bias) {
    for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = a.bias[static_cast<std::int64_t>(i) % a.down.rows];
    changed.bias = host_ref<const float>(bias.data());
  }
  op<MoeDownArgs>().reference(&changed);
}

// Each worker changes its own copy of the arguments: which of them takes a task does not matter.
template <class T>
std::vector<T> copied(const Ref<const T>& from, std::int64_t count) {
  return {from.get(), from.get() + count};
}
void decay_forgotten(const GatedDeltaArgs& a, device::Worker& w) {
  const std::vector<float> never(static_cast<std::size_t>(a.rows) * a.heads, -1000.0F);
  GatedDeltaArgs changed = a;
  changed.decay = host_ref<const float>(never.data());
  run_honest(changed, w);
}
void rates_forgotten(const GatedDeltaArgs& a, device::Worker& w) {
  GatedDeltaArgs changed = a;
  changed.rates = {};
  run_honest(changed, w);
}
void gates_exchanged(const GatedDeltaArgs& a, device::Worker& w) {
  GatedDeltaArgs changed = a;
  std::swap(changed.decay, changed.beta);
  run_honest(changed, w);
}
void query_used_as_key(const GatedDeltaArgs& a, device::Worker& w) {
  GatedDeltaArgs changed = a;
  changed.k = a.q;
  run_honest(changed, w);
}
void slot_is_the_sequence(const GatedDeltaArgs& a, device::Worker& w) {
  std::vector<std::int32_t> slots(static_cast<std::size_t>(a.sequence_count));
  for (std::size_t s = 0; s < slots.size(); ++s) slots[s] = static_cast<std::int32_t>(s);
  GatedDeltaArgs changed = a;
  changed.state_slots = host_ref<const std::int32_t>(slots.data());
  run_honest(changed, w);
}
void state_not_kept(const GatedDeltaArgs& a, device::Worker& w) {
  std::vector<std::byte> state(static_cast<std::size_t>(a.slots) * state_slot_bytes(a.heads, a.key_dim, a.value_dim));
  std::copy_n(a.state.get(), state.size(), state.data());
  GatedDeltaArgs changed = a;
  changed.state = host_ref(state.data());
  run_honest(changed, w);
}
// Linear attention: v is added, not the difference from what the state answers. Written as v moved by that answer.
void delta_forgotten(const GatedDeltaArgs& a, device::Worker& w) {
  if (w.index() != 0) return;
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const auto row = [r](auto ref, std::int64_t stride) {
      ref.at += static_cast<std::uint64_t>(r * stride) * 4;
      return ref;
    };
    GatedDeltaArgs one = a;
    one.rows = 1;
    one.out = row(a.out, std::int64_t{a.heads} * a.value_dim);
    one.q = row(a.q, std::int64_t{a.heads} * a.key_dim);
    one.k = row(a.k, std::int64_t{a.heads} * a.key_dim);
    one.v = row(a.v, std::int64_t{a.heads} * a.value_dim);
    one.decay = row(a.decay, a.heads);
    one.beta = row(a.beta, a.heads);
    one.sequences = row(a.sequences, 1);
    // What the state answers to k: a row that asks with k and moves nothing, on a copy.
    std::vector<std::byte> state(static_cast<std::size_t>(a.slots) * state_slot_bytes(a.heads, a.key_dim, a.value_dim));
    std::copy_n(a.state.get(), state.size(), state.data());
    const std::vector<float> nothing(static_cast<std::size_t>(a.heads), -1000.0F);
    std::vector<float> answer(static_cast<std::size_t>(a.heads) * a.value_dim);
    GatedDeltaArgs ask = one;
    ask.state = host_ref(state.data());
    ask.q = one.k;
    ask.beta = host_ref<const float>(nothing.data());
    ask.out = host_ref(answer.data());
    op<GatedDeltaArgs>().reference(&ask);
    for (std::size_t i = 0; i < answer.size(); ++i) answer[i] += one.v[static_cast<std::int64_t>(i)];
    one.v = host_ref<const float>(answer.data());
    op<GatedDeltaArgs>().reference(&one);
  }
}
// Rows of a prompt from the last to the first.
void rows_in_reverse(const GatedDeltaArgs& a, device::Worker& w) {
  const auto reversed = [&](const auto& ref, std::int64_t width) {
    auto values = copied(ref, a.rows * width);
    for (std::int64_t r = 0; r < a.rows; ++r) std::copy_n(ref.get() + (a.rows - 1 - r) * width, width, values.begin() + r * width);
    return values;
  };
  const auto q = reversed(a.q, std::int64_t{a.heads} * a.key_dim);
  const auto k = reversed(a.k, std::int64_t{a.heads} * a.key_dim);
  const auto v = reversed(a.v, std::int64_t{a.heads} * a.value_dim);
  const auto decay = reversed(a.decay, a.heads);
  const auto beta = reversed(a.beta, a.heads);
  GatedDeltaArgs changed = a;
  changed.q = host_ref<const float>(q.data());
  changed.k = host_ref<const float>(k.data());
  changed.v = host_ref<const float>(v.data());
  changed.decay = host_ref<const float>(decay.data());
  changed.beta = host_ref<const float>(beta.data());
  run_honest(changed, w);
}

// How many cases of its op catch a wrong kernel, and what the first said.
struct Caught {
  int cases = 0;
  std::string how;
};
Caught catch_wrong(const KernelEntry& kernel, const std::function<bool(const ShapeCase&)>& applies) {
  Checker checker;
  Caught caught;
  for (const ShapeCase& c : all_cases()) {
    if (c.op != kernel.op || !applies(c)) continue;
    const auto problems = checker.check(kernel, c);
    if (!problems.empty() && caught.cases++ == 0) caught.how = c.name + joined(problems);
  }
  return caught;
}

bool small(const ShapeCase& c) { return c.rows <= 9 && c.name.find("21888") == std::string::npos; }
bool small_mxfp4(const ShapeCase& c) { return small(c) && c.name.find("/mxfp4 ") != std::string::npos; }
bool small_bf16(const ShapeCase& c) { return small(c) && c.name.find("/bf16 ") != std::string::npos; }
bool several_rows(const ShapeCase& c) { return small(c) && c.rows > 1; }
bool is_prompt(const ShapeCase& c) { return c.name.find("/prompt:") != std::string::npos; }
bool not_large(const ShapeCase& c) { return c.name.find("201088") == std::string::npos; }

TEST(ConformanceSuite, CatchesEveryKindOfWrongKernel) {
  struct Mutant {
    KernelEntry kernel;
    std::function<bool(const ShapeCase&)> applies;
    std::string says;  // what the suite must have seen
  };
  const Mutant mutants[] = {
      {wrong<AttentionArgs, window_one_too_wide>("window_one_too_wide"), small, "reference"},
      {wrong<AttentionArgs, window_one_too_narrow>("window_one_too_narrow"), small, "reference"},
      {wrong<AttentionArgs, no_sink>("no_sink"), small, "reference"},
      {wrong<AttentionArgs, neighbour_kv_head>("neighbour_kv_head"), small, ""},
      {wrong<MatmulArgs, last_block_skipped>("last_block_skipped"), small_mxfp4, "reference"},
      {wrong<MatmulArgs, tail_dropped>("tail_dropped"), small_bf16, "reference"},
      {wrong<MatmulArgs, nibbles_in_the_other_order>("nibbles_in_the_other_order"), small_mxfp4, "reference"},
      {wrong<MatmulArgs, one_float_too_many>("one_float_too_many"), small_bf16, "beyond its rows"},
      {wrong<MatmulArgs, one_float_before>("one_float_before"), small_bf16, "bytes before out"},
      {wrong<MatmulArgs, writes_its_input>("writes_its_input"), small_bf16, "in byte 0"},
      {wrong<MatmulArgs, bias_forgotten>("bias_forgotten"), small_bf16, "reference"},
      {wrong<MatmulArgs, residual_forgotten>("residual_forgotten"), small_bf16, "reference"},
      {wrong<MatmulArgs, one_row_too_many>("one_row_too_many"), small_bf16, "beyond its rows"},
      {wrong<MatmulArgs, order_depends_on_rows>("order_depends_on_rows"), small_bf16, "alone has other bits"},
      {wrong<RmsNormArgs, order_depends_on_threads>("order_depends_on_threads"), small, "3 thread(s) gave other bits"},
      {wrong<GluArgs, gate_clamped_below>("gate_clamped_below"), small, "reference"},
      {wrong<RouteArgs, ties_to_the_higher_expert>("ties_to_the_higher_expert"), small, "reference"},
      {wrong<RopeArgs, rope_pairs_confused>("rope_pairs_confused"), small, "reference"},
      {wrong<KvAppendArgs, writes_a_skipped_row>("writes_a_skipped_row"), small, ""},
      {wrong<GatedDeltaArgs, decay_forgotten>("decay_forgotten"), small, "reference"},
      {wrong<GatedDeltaArgs, rates_forgotten>("rates_forgotten"), small, "reference"},
      {wrong<GatedDeltaArgs, gates_exchanged>("gates_exchanged"), small, "reference"},
      {wrong<GatedDeltaArgs, query_used_as_key>("query_used_as_key"), small, "reference"},
      {wrong<GatedDeltaArgs, slot_is_the_sequence>("slot_is_the_sequence"), several_rows, "reference"},
      {wrong<GatedDeltaArgs, state_not_kept>("state_not_kept"), small, "state"},
      {wrong<GatedDeltaArgs, delta_forgotten>("delta_forgotten"), small, "reference"},
      {wrong<GatedDeltaArgs, rows_in_reverse>("rows_in_reverse"), is_prompt, "reference"},
      {wrong<SampleArgs, choice_ignored>("choice_ignored"), not_large, "reference"},
      {wrong<MoeDownArgs, down_bias_of_expert_0>("down_bias_of_expert_0"), small_bf16, "reference"},
  };
  for (const Mutant& mutant : mutants) {
    const Caught caught = catch_wrong(mutant.kernel, mutant.applies);
    EXPECT_GT(caught.cases, 0) << mutant.kernel.kernel.name << " passes the suite";
    EXPECT_NE(caught.how.find(mutant.says), std::string::npos) << mutant.kernel.kernel.name << " was caught by:\n" << caught.how;
  }
}

}  // namespace
}  // namespace plumb::kernels::conformance
