#include "kernels/geometry/attention_plan.h"

#include <gtest/gtest.h>

namespace plumb::kernels {
namespace {

AttentionShape moe(std::int32_t rows, std::int64_t span, std::int32_t workers) {
  return {.isa = Isa::avx2,
          .head_dim = 64,
          .q_heads = 16,
          .kv_heads = 4,
          .rows = rows,
          .sequences = 1,
          .span = span,
          .workers = workers,
          .slices = attention_slices(0, span - 1),
          .stretches = attention_stretches(0, span - 1),
          .places = 128};
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
  // Buckets change where they were measured to.
  EXPECT_EQ(plan_attention({}, moe(1, 8191, 2)).variant, AttentionVariant::grouped);
  EXPECT_EQ(plan_attention({}, moe(1, 8192, 2)).variant, AttentionVariant::seqpar_long);
  EXPECT_EQ(plan_attention({}, moe(256, 2000, 2)).variant, attention_rows()[0].buckets[0].block);
  // Eight requests that decode together are not a block.
  AttentionShape batch = moe(8, 2000, 2);
  batch.sequences = 8;
  EXPECT_EQ(plan_attention({}, batch).variant, AttentionVariant::grouped);
}

TEST(AttentionPlan, SlicesAreSharedOutWhereWorkersWouldBeIdle) {
  const AttentionChoice many = plan_attention({}, moe(1, 8000, 16));
  EXPECT_EQ(many.variant, AttentionVariant::seqpar);
  EXPECT_EQ(many.parts, 8);  // 4 KV heads x 8 for 16 workers, two each
  // The longest that there is room for, with more workers than stretches.
  EXPECT_EQ(plan_attention({}, moe(1, 32768, 128)).variant, AttentionVariant::seqpar);
  EXPECT_EQ(plan_attention({}, moe(1, 32768, 128)).parts, 64);
  EXPECT_EQ(plan_attention({}, moe(1, 100, 64)).variant, AttentionVariant::grouped) << "one slice cannot be shared";
  EXPECT_EQ(plan_attention({}, moe(1, 700, 64)).parts, 3) << "no more parts than slices";
}

TEST(AttentionPlan, StretchesAreSharedOutOfLongSpans) {
  for (const std::int32_t workers : {1, 2, 16, 64}) {
    const AttentionChoice choice = plan_attention({}, moe(1, 32768, workers));
    EXPECT_EQ(choice.variant, AttentionVariant::seqpar_long) << workers;
    EXPECT_EQ(choice.slices, 16);
  }
  // And of several requests that decode together.
  AttentionShape batch = moe(8, 32768, 2);
  batch.sequences = 8;
  EXPECT_EQ(plan_attention({}, batch).variant, AttentionVariant::seqpar_long);
}

// Whatever the context, its last keys are shared out like the others, for up to four rows.
TEST(AttentionPlan, AnEngineKeepsRoomForItsWholeContext) {
  for (const std::int32_t context : {1, 256, 257, 2000, 8192, 8300, 32768, 131072, 300000}) {
    for (std::int32_t rows = 1; rows <= 4; ++rows) {
      AttentionShape shape = moe(rows, context, 64);
      shape.sequences = rows;
      shape.places = attention_places(context) / rows;
      EXPECT_GE(shape.places, shape.stretches) << context << " " << rows;
      EXPECT_GE(shape.places, std::min<std::int64_t>(shape.slices, 128)) << context << " " << rows;
      if (context <= 256) continue;
      EXPECT_GT(plan_attention({}, shape).slices, 1) << context << " " << rows;
    }
  }
}

TEST(AttentionPlan, WhatHasNoRoomIsNotKeptApart) {
  // Slices have none, with workers enough for them: stretches.
  EXPECT_EQ(plan_attention({}, moe(1, 131072, 512)).variant, AttentionVariant::seqpar_long);
  EXPECT_EQ(plan_attention({AttentionRequest::Kind::parts, 6}, moe(1, 131072, 2)).variant, AttentionVariant::seqpar_long);
  AttentionShape tight = moe(1, 131072, 64);
  tight.places = 8;
  EXPECT_EQ(plan_attention({}, tight).variant, AttentionVariant::grouped);
  EXPECT_EQ(plan_attention({}, tight).slices, 1);
  EXPECT_EQ(plan_attention({AttentionRequest::Kind::parts, 6}, tight).variant, AttentionVariant::grouped);
  AttentionShape shorter = moe(1, 700, 64);  // one stretch: nothing to share out
  shorter.places = 2;
  EXPECT_EQ(plan_attention({}, shorter).variant, AttentionVariant::grouped);
  shorter.places = 3;
  EXPECT_EQ(plan_attention({}, shorter).variant, AttentionVariant::seqpar);
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
  // Every span of a geometry falls into one bucket, and a geometry has one row.
  for (const AttentionRow& row : attention_rows()) {
    std::int64_t below = 0;
    for (const AttentionBucket& bucket : row.buckets) {
      EXPECT_LT(below, bucket.to);
      below = bucket.to;
    }
    EXPECT_EQ(below, kAnySpan);
    for (const AttentionRow& other : attention_rows()) {
      EXPECT_FALSE(&other != &row && other.backend == row.backend && other.isa == row.isa && other.head_dim == row.head_dim &&
                   other.q_heads == row.q_heads && other.kv_heads == row.kv_heads);
    }
  }
}

}  // namespace
}  // namespace plumb::kernels
