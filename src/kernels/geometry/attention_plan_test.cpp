#include "kernels/geometry/attention_plan.h"

#include <gtest/gtest.h>

namespace plumb::kernels {
namespace {

AttentionShape moe(std::int32_t rows, std::int64_t span, std::int32_t workers) {
  return {.isa = Isa::avx2, .head_dim = 64, .q_heads = 16, .kv_heads = 4, .rows = rows, .sequences = 1, .span = span, .workers = workers};
}

TEST(AttentionPlan, RequestsAreUnsetAutoOffOrANumber) {
  using Kind = AttentionRequest::Kind;
  EXPECT_EQ(parse_attention("")->kind, Kind::automatic);
  EXPECT_EQ(parse_attention("auto")->kind, Kind::automatic);
  EXPECT_EQ(parse_attention("off")->kind, Kind::off);
  EXPECT_EQ(parse_attention("8")->kind, Kind::parts);
  EXPECT_EQ(parse_attention("8")->parts, 8);
  for (const char* bad : {"0", "-1", "257", "8x", "serial"}) EXPECT_EQ(parse_attention(bad).error().field, "attention") << bad;
}

TEST(AttentionPlan, AGeometryThatWasNotMeasuredIsARefusalAndSerial) {
  AttentionShape shape = moe(1, 512, 2);
  shape.head_dim = 72;
  const AttentionChoice choice = plan_attention({}, shape);
  EXPECT_EQ(choice.variant, AttentionVariant::serial);
  EXPECT_EQ(choice.slices, 0);
  shape.head_dim = 64;
  shape.isa = Isa::portable;
  EXPECT_EQ(plan_attention({}, shape).slices, 0);
}

TEST(AttentionPlan, RowsOfTheTableSayWhatRuns) {
  EXPECT_EQ(plan_attention({}, moe(1, 2000, 2)).variant, AttentionVariant::grouped);
  EXPECT_EQ(plan_attention({}, moe(256, 2000, 2)).variant, attention_rows()[0].block);
  // Eight requests that decode together are not a block.
  AttentionShape batch = moe(8, 2000, 2);
  batch.sequences = 8;
  EXPECT_EQ(plan_attention({}, batch).variant, AttentionVariant::grouped);
}

TEST(AttentionPlan, SlicesAreSharedOutWhereWorkersWouldBeIdle) {
  const AttentionChoice many = plan_attention({}, moe(1, 32768, 64));
  EXPECT_EQ(many.variant, AttentionVariant::seqpar);
  EXPECT_EQ(many.parts, 32);  // 4 KV heads x 32 for 64 workers, two each
  EXPECT_EQ(plan_attention({}, moe(1, 100, 64)).variant, AttentionVariant::grouped) << "one slice cannot be shared";
  EXPECT_EQ(plan_attention({}, moe(1, 700, 64)).parts, 3) << "no more parts than slices";
}

TEST(AttentionPlan, RequestsOverrideTheTable) {
  EXPECT_EQ(plan_attention({AttentionRequest::Kind::off, 0}, moe(1, 2000, 2)).variant, AttentionVariant::serial);
  const AttentionChoice parts = plan_attention({AttentionRequest::Kind::parts, 6}, moe(1, 2000, 2));
  EXPECT_EQ(parts.variant, AttentionVariant::seqpar);
  EXPECT_EQ(parts.parts, 6);
}

TEST(AttentionPlan, EveryRowNamesKernelsThatExist) {
  for (const KvFormat format : kKvFormats) {
    AttentionArgs args;
    args.kv.format = format;
    for (const AttentionVariant variant : kAttentionVariants) {
      for (const Isa isa : {Isa::portable, best_isa()}) {
        const KernelEntry* kernel = attention_kernel(variant, &args, device::Backend::cpu, isa);
        ASSERT_NE(kernel, nullptr) << to_string(variant);
        EXPECT_TRUE(isa_includes(isa, kernel->isa));
      }
    }
  }
  for (const AttentionRow& row : attention_rows()) EXPECT_LT(row.from, row.to);
}

}  // namespace
}  // namespace plumb::kernels
