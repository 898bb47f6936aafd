#include "kv/layout.h"

#include <gtest/gtest.h>

namespace plumb::kv {
namespace {

model::DecoderSpec two_classes() {
  model::DecoderSpec spec{.family = "test", .vocab = 8, .hidden = 8, .max_positions = 131072};
  for (const std::int32_t window : {128, 0, 128, 0}) {
    spec.layers.push_back({model::AttentionSpec{.window = window, .head_dim = 64, .q_heads = 8, .kv_heads = 2}, model::DenseSpec{.ffn = 8}});
  }
  return spec;
}

TEST(KvLayout, WindowMemoryDoesNotGrowWithTheContext) {
  const auto small = plan_kv(two_classes(), {.context = 4096, .chunk_rows = 256}).value();
  const auto large = plan_kv(two_classes(), {.context = 131072, .chunk_rows = 256}).value();
  ASSERT_EQ(small.classes.size(), 2U);
  EXPECT_EQ(small.classes[0].pool_bytes(), large.classes[0].pool_bytes());
  EXPECT_EQ(small.classes[1].pool_bytes() * 32, large.classes[1].pool_bytes());
  // 127 rows before the chunk and 256 of it, in pages of 16, and one page because the span need not start at a page.
  EXPECT_EQ(large.classes[0].geometry.pages, (127 + 256 + 15) / 16 + 1);
  EXPECT_EQ(large.classes[1].geometry.pages, 131072 / kPageRows);
  // Two layers, K and V, 16 rows of two 64-wide f32 heads.
  EXPECT_EQ(large.classes[0].page_bytes, 2U * 2 * 16 * 2 * 64 * 4);
}

TEST(KvLayout, TheRingNeverGivesOneCellToTwoLivePositions) {
  for (const std::int32_t window : {1, 2, 15, 16, 17, 37, 128}) {
    for (const std::int32_t chunk : {1, 7, 16, 33, 256}) {
      const WindowResidency r(window, chunk);
      for (std::int32_t start = 0; start < 700; start += 13) {
        // While rows [start, start + chunk) are computed, everything from the first row's window on is live.
        std::vector<int> owner(static_cast<std::size_t>(r.table_pages() * kPageRows), -1);
        for (std::int32_t p = r.first_live(start + 1); p < start + chunk; ++p) {
          const TableCell cell = r.cell({p});
          int& seen = owner[static_cast<std::size_t>(cell.table_index * kPageRows + cell.row)];
          ASSERT_EQ(seen, -1) << "window " << window << " chunk " << chunk << ": positions " << seen << " and " << p;
          seen = p;
        }
      }
    }
  }
}

TEST(KvLayout, RefusesWhatCannotBeByName) {
  const auto field = [](KvOptions o) {
    const auto layout = plan_kv(two_classes(), o);
    return layout.ok() ? "accepted" : layout.error().field;
  };
  EXPECT_EQ(field({.context = 0, .chunk_rows = 1}), "context");
  EXPECT_EQ(field({.context = 131073, .chunk_rows = 1}), "context");
  EXPECT_EQ(field({.context = 16, .sequences = 0, .chunk_rows = 1}), "sequences");
  EXPECT_EQ(field({.context = 16, .chunk_rows = 0}), "chunk_rows");
  EXPECT_EQ(field({.context = 16, .chunk_rows = 1, .chain_depth = -1}), "chain_depth");
  EXPECT_EQ(field({.context = 131072, .sequences = 1 << 20, .chunk_rows = 1}), "sequences");
}

}  // namespace
}  // namespace plumb::kv
