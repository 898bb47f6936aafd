#include "kernels/table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

namespace plumb::kernels {
namespace {

MatmulArgs matmul_of(WeightFormat format) {
  MatmulArgs a;
  a.out = {0, kHostSlot, 0};
  a.in = {0, kHostSlot, 0};
  a.weight.data = {0, kHostSlot, 0};
  a.weight.format = format;
  a.weight.rows = 3;
  a.weight.cols = 64;
  a.weight.row_stride = 256;
  a.rows = 1;
  return a;
}

TEST(Table, EveryOpIsFoundByItsName) {
  std::set<std::string> names;
  for (const OpDesc* desc : all_ops()) {
    EXPECT_EQ(find_op(desc->name), desc);
    EXPECT_LE(desc->args_bytes, kArgsBytes);
    EXPECT_TRUE(names.insert(desc->name).second) << desc->name;
  }
  EXPECT_EQ(find_op("convolution"), nullptr);
}

TEST(Table, NamesFollowTheGrammarAndAreUniqueWithinAnInstructionSet) {
  std::set<std::string> seen;
  for (const KernelEntry& entry : all_kernels()) {
    const std::string name = entry.kernel.name;
    EXPECT_TRUE(name.rfind("f32_", 0) == 0 || name.rfind("q8_", 0) == 0) << name;
    // <activations>_<weights or KV form>_<op>, and where an op has several kernels of one form, which of them: _serial, _grouped.
    const std::string suffix = std::string("_") + entry.op->name;
    const std::size_t at = name.find(suffix);
    ASSERT_NE(at, std::string::npos) << name;
    EXPECT_TRUE(at + suffix.size() == name.size() || (name[at + suffix.size()] == '_' && entry.op == &op<AttentionArgs>())) << name;
    EXPECT_TRUE(seen.insert(name + "@" + std::string(to_string(entry.isa))).second) << name << " stands twice";
  }
}

TEST(Table, SelectsTheBestInstructionSetThatIsAllowed) {
  const MatmulArgs a = matmul_of(WeightFormat::q8_0);
  for (const Isa isa : available_isas()) {
    auto entry = select_kernel(op<MatmulArgs>(), &a, device::Backend::cpu, isa);
    ASSERT_TRUE(entry.ok());
    EXPECT_STREQ((*entry)->kernel.name, "f32_q8_0w_matmul");
    for (const KernelEntry& other : all_kernels()) {
      if (std::string_view(other.kernel.name) != (*entry)->kernel.name || !isa_includes(isa, other.isa)) continue;
      EXPECT_TRUE(isa_includes((*entry)->isa, other.isa)) << to_string(other.isa) << " stands behind " << to_string((*entry)->isa);
    }
  }
}

TEST(Table, EveryOpRunsOnEveryInstructionSet) {
  for (const KernelEntry& wanted : all_kernels()) {
    if (wanted.isa != Isa::portable) continue;
    for (const Isa isa : built_isas()) {
      const auto covers = [&](const KernelEntry& k) {
        return std::string_view(k.kernel.name) == wanted.kernel.name && isa_includes(isa, k.isa) && (isa == Isa::portable || k.isa != Isa::portable);
      };
      EXPECT_TRUE(std::any_of(all_kernels().begin(), all_kernels().end(), covers))
          << wanted.kernel.name << " of " << to_string(isa) << " is the portable one";
    }
  }
}

TEST(Table, NamesWhatIsMissing) {
  const MatmulArgs a = matmul_of(WeightFormat::q4_0);
  auto entry = select_kernel(op<MatmulArgs>(), &a, device::Backend::vulkan, Isa::portable);
  ASSERT_FALSE(entry.ok());
  EXPECT_EQ(entry.error().code, ErrorCode::unsupported);
  const std::string text = entry.error().to_string();
  for (const char* part : {"q4_0", "vulkan", "matmul"}) EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Check, BlamesTheFieldAndSaysWhatItFound) {
  const auto refuses = [](const auto& args, const char* field, const char* value) {
    const Status status = check(args);
    ASSERT_FALSE(status.ok()) << field;
    EXPECT_EQ(status.error().field, field);
    EXPECT_EQ(status.error().value, value);
    EXPECT_EQ(status.error().subject, std::decay_t<decltype(args)>::kName);
  };
  EXPECT_TRUE(check(matmul_of(WeightFormat::mxfp4)).ok());
  MatmulArgs a = matmul_of(WeightFormat::mxfp4);
  a.weight.cols = 33;
  refuses(a, "weight.cols", "33");
  a = matmul_of(WeightFormat::mxfp4);
  a.weight.row_stride = 33;
  refuses(a, "weight.row_stride", "33");
  a = matmul_of(WeightFormat::mxfp4_split);
  refuses(a, "weight.scales", "0");
  a = matmul_of(WeightFormat::f32);
  a.out = {};
  refuses(a, "out", "absent");
  a = matmul_of(WeightFormat::f32);
  a.weight.experts = 2;
  refuses(a, "weight.experts", "2");

  // Packed weights and q8 rows go together.
  a = matmul_of(WeightFormat::mxfp4);
  a.in_q8 = {0, kHostSlot, 0};
  refuses(a, "in_q8", "1");
  a = matmul_of(WeightFormat::mxfp4_r8);
  a.weight.scales = {0, kHostSlot, 0};
  a.weight.row_stride = 32;
  a.weight.scale_row_stride = 2;
  refuses(a, "in", "1");
  a.in = {};
  refuses(a, "in_q8", "0");
  a.in_q8 = {0, kHostSlot, 0};
  EXPECT_TRUE(check(a).ok());
  a.weight.row_stride = 48;
  refuses(a, "weight.row_stride", "48");
  a.weight.row_stride = 64;  // another matrix's groups between
  refuses(a, "weight.scale_row_stride", "2");
  a.weight.scale_row_stride = 4;
  EXPECT_TRUE(check(a).ok());

  RouteArgs route{.experts = {0, kHostSlot, 0}, .weights = {0, kHostSlot, 0}, .logits = {0, kHostSlot, 0}, .expert_count = 4,
                  .top_k = 5, .rows = 1};
  refuses(route, "top_k", "5");
}

TEST(Check, BlamesTheSizesOfARecurrentState) {
  const Ref<const float> in{0, kHostSlot, 0};
  const Ref<const std::int32_t> index{0, kHostSlot, 0};
  const GatedDeltaArgs good{.out = {0, kHostSlot, 0}, .state = {0, kHostSlot, 0}, .q = in, .k = in, .v = in, .decay = in, .beta = in,
                            .sequences = index, .state_slots = index, .sequence_count = 2, .slots = 3, .heads = 4, .key_dim = 8,
                            .value_dim = 16, .rows = 5};
  EXPECT_TRUE(check(good).ok());
  const auto blames = [&](const char* field, auto change) {
    GatedDeltaArgs a = good;
    change(a);
    const Status status = check(a);
    ASSERT_FALSE(status.ok()) << field;
    EXPECT_EQ(status.error().field, field);
  };
  blames("state", [](GatedDeltaArgs& a) { a.state = {}; });
  blames("state_slots", [](GatedDeltaArgs& a) { a.state_slots = {}; });
  blames("sequence_count", [](GatedDeltaArgs& a) { a.sequence_count = 0; });
  blames("slots", [](GatedDeltaArgs& a) { a.slots = 0; });
  blames("key_dim", [](GatedDeltaArgs& a) { a.key_dim = kMaxStateDim + 1; });
  blames("value_dim", [](GatedDeltaArgs& a) { a.value_dim = 0; });

  const std::uint64_t slot = 4U * 8 * 16 * 4;
  EXPECT_EQ(state_slot_bytes(4, 8, 16), slot);
  EXPECT_EQ(cost(good).bytes_read, slot + 5U * 4 * (2 * 8 + 16 + 2) * 4 + 5U * 4 + 2U * 4);
  EXPECT_EQ(cost(good).bytes_written, slot + 5U * 4 * 16 * 4);
  EXPECT_EQ(gated_delta_state_cost(good, 3).bytes_written, 3 * slot);
}

TEST(Check, KvViews) {
  KvAppendArgs a{.kv = {.k = {0, kHostSlot, 0}, .v = {0, kHostSlot, 0}, .table = {0, kHostSlot, 0}, .format = KvFormat::q8,
                        .pages = 3, .page_rows = 16, .table_pages = 1, .sequences = 1, .kv_heads = 2, .head_dim = 8},
                 .k = {0, kHostSlot, 0}, .v = {0, kHostSlot, 0}, .positions = {0, kHostSlot, 0},
                 .sequences = {0, kHostSlot, 0}, .rows = 1};
  EXPECT_TRUE(check(a).ok());
  EXPECT_EQ(kv_pool_bytes(a.kv), 3U * 16 * 2 * (8 + 4));  // a scale with each row of each head
  EXPECT_EQ(cost(a).bytes_written, 2U * 2 * (8 + 4));
  a.kv.format = KvFormat::bf16;
  EXPECT_EQ(kv_pool_bytes(a.kv), 3U * 16 * 2 * 8 * 2);
  a.kv.page_rows = 24;
  EXPECT_EQ(check(a).error().field, "kv.page_rows");
}

// Every block of a pool is somebody's, and nobody else's; the blocks of one head in the pages of a span follow each other.
TEST(KvView, BlocksFillThePoolAndAHeadsAreAStream) {
  for (const std::int32_t pages : {1, 3, 63, 64, 65, 127, 128, 200}) {
    for (const std::int32_t heads : {1, 2, 5}) {
      const KvView kv{.k = {}, .v = {}, .table = {}, .format = KvFormat::q8, .pages = pages, .page_rows = 4, .kv_heads = heads, .head_dim = 8};
      const std::int64_t bytes = kv_block_bytes(kv);
      EXPECT_EQ(bytes, 4 * (8 + 4));
      std::vector<int> owners(static_cast<std::size_t>(pages) * static_cast<std::size_t>(heads), 0);
      for (std::int32_t page = 0; page < pages; ++page) {
        for (int head = 0; head < heads; ++head) {
          const std::int64_t at = kv_block(kv, page, head);
          ASSERT_TRUE(at >= 0 && at % bytes == 0 && static_cast<std::uint64_t>(at + bytes) <= kv_pool_bytes(kv)) << page << " of " << pages;
          ++owners[static_cast<std::size_t>(at / bytes)];
          if (page + 1 < pages && (page + 1) % kKvSpanPages != 0) {
            EXPECT_EQ(kv_block(kv, page + 1, head), at + bytes);
          }
        }
      }
      EXPECT_EQ(std::count(owners.begin(), owners.end(), 1), pages * heads);
    }
  }
}

TEST(KvFormats, AreParsedByName) {
  for (const KvFormat format : kKvFormats) EXPECT_EQ(parse_kv_format("--kv", to_string(format)).value(), format);
  EXPECT_EQ(parse_kv_format("--kv", "q4").error().field, "--kv");
}

TEST(Cost, CountsEachDistinctByteOnce) {
  MatmulArgs a = matmul_of(WeightFormat::mxfp4);
  a.rows = 5;
  a.bias = {0, kHostSlot, 0};
  const device::Cost matmul = cost(a);
  EXPECT_EQ(matmul.bytes_read, 5U * 64 * 4 + 3U * 34 + 3U * 4);
  EXPECT_EQ(matmul.bytes_written, 5U * 3 * 4);
  EXPECT_EQ(matmul.flops, 2U * 5 * 3 * 64);

  MoeDownArgs moe{.down = a.weight, .top_k = 2, .rows = 3};
  moe.down.experts = 4;
  EXPECT_EQ(cost(moe).bytes_read, 6U * 64 * 4 + 5U * 4 + 6U * 4 + 4U * 3 * 34);  // 4 experts: all, for 6 pairs
  moe.rows = 1;
  EXPECT_EQ(cost(moe).bytes_read, 2U * 64 * 4 + 5U * 4 + 2U * 4 + 2U * 3 * 34);  // 2 pairs read at most 2 experts
}

}  // namespace
}  // namespace plumb::kernels
