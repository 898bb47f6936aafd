// Sequences, pools and the prefix tree together: the property that matters is that whatever happens in whatever order, a match
// names exactly the pages that hold its tokens' rows, and nothing leaks. A "device" of plain arrays stands in for the rows:
// the cell of (page, row) holds a hash of all tokens up to and including its position, which is what a real K row depends on.
#include "kv/sequence.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "base/counter_rng.h"

namespace plumb::kv {
namespace {

model::DecoderSpec spec_with(std::vector<std::int32_t> windows) {
  model::DecoderSpec spec{.family = "test", .vocab = 8, .hidden = 8, .max_positions = 1 << 16};
  for (const std::int32_t w : windows) {
    model::AttentionSpec a{.window = w, .head_dim = 8, .q_heads = 1, .kv_heads = 1};
    spec.layers.push_back({a, model::DenseSpec{.ffn = 8}});
  }
  return spec;
}

class World {
 public:
  World(std::vector<std::int32_t> windows, std::int32_t context, std::int32_t cache_pages)
      : layout_(plan_kv(spec_with(std::move(windows)), {.context = context,
                                                        .sequences = 1,
                                                        .chunk_rows = 24,
                                                        .pool_positions = context + cache_pages * kPageRows,
                                                        .snapshot_pages = cache_pages})
                    .value()) {
    for (const KvClass& c : layout_.classes) {
      pools_.push_back(std::make_unique<PagePool>(c.geometry.pages));
      list_.push_back(pools_.back().get());
      rows_.emplace_back(static_cast<std::size_t>(c.geometry.pages * kPageRows), 0U);
      table_.emplace_back(static_cast<std::size_t>(c.geometry.table_pages), kernels::kNoPage);
    }
    slots_ = std::make_unique<SlotTable>(layout_);
    tree_ = std::make_unique<PrefixTree>(layout_, list_);
  }

  static std::uint64_t hash(std::span<const std::int32_t> tokens) {
    std::uint64_t h = 1469598103934665603U;
    for (const std::int32_t t : tokens) h = (h ^ static_cast<std::uint64_t>(t + 1)) * 1099511628211U;
    return h;
  }

  // What a step uploads.
  void apply() {
    std::vector<TableChange> changes;
    std::vector<ZeroPage> zero;
    slots_->take(changes, zero);
    for (const TableChange& c : changes) table_[static_cast<std::size_t>(c.layer_class)][static_cast<std::size_t>(c.index)] = c.page;
    for (const ZeroPage& z : zero) {
      for (int r = 0; r < kPageRows; ++r) rows_[static_cast<std::size_t>(z.layer_class)][static_cast<std::size_t>(z.page * kPageRows + r)] = 0;
    }
  }

  std::uint64_t& row(std::size_t c, std::int32_t position) {
    const TableCell cell = layout_.classes[c].residency.cell({position});
    const PageId page = table_[c][static_cast<std::size_t>(cell.table_index)];
    EXPECT_NE(page, kernels::kNoPage) << "class " << c << " position " << position;
    return rows_[c][static_cast<std::size_t>(page * kPageRows + cell.row)];
  }

  // Runs one sequence over `tokens` in chunks, as an engine does, checking every row a query would read.
  PrefixMatch run(const std::vector<std::int32_t>& tokens, std::int32_t chunk) {
    auto sequence = std::make_unique<Sequence>(KvParts{layout_, list_, *slots_, tree_.get()}, slots_->acquire_row().value());
    const PrefixMatch match = tree_->match(tokens);
    EXPECT_TRUE(sequence->begin(match).ok());
    const auto end = static_cast<std::int32_t>(tokens.size());
    for (std::int32_t from = match.recompute_from; from < end;) {
      const std::int32_t to = std::min(from + chunk, end);
      const Status reserved = sequence->reserve(to);
      EXPECT_TRUE(reserved.ok()) << reserved.error().to_string();
      apply();
      for (std::int32_t p = from; p < to; ++p) compute(tokens, p, match);
      sequence->commit(std::span(tokens).first(static_cast<std::size_t>(to)));
      const NodeId standing[] = {sequence->node()};
      const Status ok = tree_->check_integrity(standing);
      EXPECT_TRUE(ok.ok()) << ok.error().to_string();
      from = to;
    }
    sequence.reset();
    apply();
    EXPECT_EQ(slots_->free_rows(), slots_->rows());
    return match;
  }

  void compute(const std::vector<std::int32_t>& tokens, std::int32_t p, const PrefixMatch& match) {
    for (std::size_t c = 0; c < rows_.size(); ++c) {
      const Residency& r = layout_.classes[c].residency;
      const bool shared = r.full() && p < match.length;
      // A row computed from a cold window is wrong until the rebuild distance has passed; anything else would hide the danger.
      const bool cold = !r.full() && match.cold_window && p < match.length - pages_for(r.window() - 1) * kPageRows;
      if (!shared) row(c, p) = cold ? 0xBAD : hash(std::span(tokens).first(static_cast<std::size_t>(p) + 1));
      if (p < match.length) continue;  // only rows the answer depends on must see the truth
      for (std::int32_t k = r.first_live(p + 1); k <= p; ++k) {
        ASSERT_EQ(row(c, k), hash(std::span(tokens).first(static_cast<std::size_t>(k) + 1))) << "class " << c << " query " << p << " key " << k;
      }
    }
  }

  // Every page is free or held by the tree.
  void expect_conserved() {
    tree_.reset();
    for (const auto& pool : pools_) EXPECT_EQ(pool->free_pages(), pool->pages());
    for (const auto& table : table_) {
      for (const PageId page : table) EXPECT_EQ(page, kernels::kNoPage) << "a released row still names a page";
    }
  }

  PrefixTree& tree() { return *tree_; }

 private:
  KvLayout layout_;
  std::vector<std::unique_ptr<PagePool>> pools_;
  std::vector<PagePool*> list_;
  std::vector<std::vector<std::uint64_t>> rows_;  // by class: [page][row]
  std::vector<std::vector<PageId>> table_;        // by class
  std::unique_ptr<SlotTable> slots_;
  std::unique_ptr<PrefixTree> tree_;
};

std::vector<std::int32_t> text(std::int32_t n, std::int32_t seed) {
  std::vector<std::int32_t> tokens;
  const Philox rng{static_cast<std::uint64_t>(seed)};
  for (std::int32_t i = 0; i < n; ++i) tokens.push_back(static_cast<std::int32_t>(rng.block(static_cast<std::uint64_t>(i))[0] % 1000));
  return tokens;
}

TEST(Sequence, ASecondTurnFindsEveryCompletePageOfTheFirst) {
  World world({32, 0, 32, 0}, 512, 64);
  std::vector<std::int32_t> tokens = text(220, 1);
  EXPECT_EQ(world.run(tokens, 24).length, 0);
  tokens.insert(tokens.end(), {1, 2, 3});
  const PrefixMatch match = world.run(tokens, 24);
  EXPECT_EQ(match.length, 220 / kPageRows * kPageRows);
  EXPECT_EQ(match.recompute_from, match.length) << "warm";
  world.expect_conserved();
}

TEST(Sequence, AtLeastOneTokenIsLeftToCompute) {
  World world({0}, 256, 16);
  const auto tokens = text(64, 2);
  world.run(tokens, 16);
  EXPECT_EQ(world.run(tokens, 16).length, 48);
  world.expect_conserved();
}

TEST(Sequence, ABranchWhoseWindowWasEvictedIsRebuiltFromFarEnough) {
  World world({32, 0, 32, 0}, 1024, 8);
  std::vector<std::int32_t> tokens = text(640, 3);
  world.run(tokens, 24);
  tokens.resize(400);
  tokens.push_back(7);
  const PrefixMatch match = world.run(tokens, 24);
  EXPECT_EQ(match.length, 400);
  EXPECT_TRUE(match.cold_window);
  EXPECT_EQ(match.recompute_from, (400 - (2 * 31 + kPageRows)) / kPageRows * kPageRows);
  // What was rebuilt is kept: the same branch is warm now.
  tokens.push_back(8);
  EXPECT_FALSE(world.run(tokens, 24).cold_window);
  world.expect_conserved();
}

TEST(Sequence, ARebuiltWindowBeforeTheBranchIsNeverShared) {
  World world({32, 0, 32, 0}, 1024, 8);
  std::vector<std::int32_t> tokens = text(640, 4);
  world.run(tokens, 24);
  tokens.resize(400);
  tokens.push_back(7);
  ASSERT_TRUE(world.run(tokens, 24).cold_window);
  // Rows just above recompute_from are inexact. A branch inside them must not find them.
  tokens.resize(352);
  tokens.push_back(9);
  world.run(tokens, 24);
  world.expect_conserved();
}

TEST(Sequence, TheTreeGivesWayToANewText) {
  World world({0}, 64, 0);  // the pool holds one context
  world.run(text(64, 5), 16);
  world.run(text(64, 6), 16);
  EXPECT_EQ(world.tree().nodes(), 4);
  world.expect_conserved();
}

TEST(Sequence, WithoutRoomItFailsByNameAndCanBeEnded) {
  const KvLayout layout =
      plan_kv(spec_with({0}), {.context = 64, .sequences = 2, .chunk_rows = 16, .pool_positions = 64}).value();
  PagePool pool(layout.classes[0].geometry.pages);
  PagePool* const pools[] = {&pool};
  SlotTable slots(layout);
  const KvParts parts{layout, pools, slots};
  {
    Sequence first(parts, slots.acquire_row().value());
    ASSERT_TRUE(first.reserve(50).ok());
    Sequence second(parts, slots.acquire_row().value());
    EXPECT_FALSE(slots.acquire_row().has_value());
    const Status status = second.reserve(16);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::capacity);
    EXPECT_EQ(status.error().field, "layer class 0");
  }
  EXPECT_EQ(pool.free_pages(), pool.pages());
  EXPECT_EQ(slots.free_rows(), 2);
}

TEST(Sequence, RandomConversationsAlwaysReadTheTruth) {
  int warm = 0;
  int resumed = 0;
  int rebuilt = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const Philox rng{seed};
    World world(seed % 3 == 0 ? std::vector<std::int32_t>{24, 0, 40} : std::vector<std::int32_t>{32, 0, 32, 0}, 512,
                static_cast<std::int32_t>(4 + seed * 3));
    std::vector<std::vector<std::int32_t>> texts{text(100, 77)};
    for (std::uint64_t turn = 0; turn < 40; ++turn) {
      const auto r = rng.block(turn);
      std::vector<std::int32_t> tokens = texts[r[0] % texts.size()];
      tokens.resize(1 + r[1] % tokens.size());                        // branch anywhere
      const auto more = text(static_cast<std::int32_t>(1 + r[2] % 120), static_cast<std::int32_t>(r[3] % 5));
      tokens.insert(tokens.end(), more.begin(), more.end());
      if (tokens.size() > 500) tokens.resize(500);
      const PrefixMatch m = world.run(tokens, static_cast<std::int32_t>(1 + r[3] % 24));
      if (m.length > 0) (m.recompute_from == m.length ? warm : m.cold_window ? rebuilt : resumed) += 1;
      texts.push_back(std::move(tokens));
    }
    world.expect_conserved();
  }
  // The test is worth something only if each way of using a match really happened.
  EXPECT_GT(warm, 10);
  EXPECT_GT(resumed, 10);
  EXPECT_GT(rebuilt, 10);
}

// Keys in neighbouring pages are read faster, so a sequence asks for the page after its last.
TEST(Sequence, TwoThatGrowInTurnAreStretchesOfNeighbouringPages) {
  const KvLayout layout = plan_kv(spec_with({0}), {.context = 640, .sequences = 2, .chunk_rows = 24}).value();
  PagePool pool(layout.classes[0].geometry.pages);
  std::vector<PagePool*> pools{&pool};
  SlotTable slots(layout);
  const KvParts parts{layout, pools, slots};
  Sequence a(parts, slots.acquire_row().value());
  Sequence b(parts, slots.acquire_row().value());
  ASSERT_TRUE(a.begin({}).ok() && b.begin({}).ok());
  for (std::int32_t end = kPageRows; end <= 640; end += kPageRows) ASSERT_TRUE(a.reserve(end).ok() && b.reserve(end).ok());
  for (const Sequence* sequence : {&a, &b}) {
    const std::vector<PageId>& pages = sequence->peek_held()[0].pages;
    ASSERT_EQ(pages.size(), 40U);
    int stretches = 1;
    for (std::size_t i = 1; i < pages.size(); ++i) stretches += pages[i] == pages[i - 1] + 1 ? 0 : 1;
    EXPECT_LE(stretches, 3);
  }
}

}  // namespace
}  // namespace plumb::kv
