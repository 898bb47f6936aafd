#include "text/merge.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace plumb::text {
namespace {

using Pair = std::pair<std::int32_t, std::int32_t>;

// The definition, read word for word: find the best pair, replace its leftmost place, begin again.
std::vector<std::int32_t> merged_plainly(std::vector<std::int32_t> ids, const std::map<Pair, Candidate>& merges) {
  for (;;) {
    std::size_t best = ids.size();
    Candidate candidate;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto found = merges.find({ids[i], ids[i + 1]});
      if (found != merges.end() && (best == ids.size() || found->second.priority < candidate.priority)) {
        best = i;
        candidate = found->second;
      }
    }
    if (best == ids.size()) return ids;
    ids[best] = candidate.id;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(MergeSymbols, DoesWhatTheDefinitionSays) {
  std::mt19937 random(7);
  const auto below = [&random](std::int32_t n) { return static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(n)); };
  for (int round = 0; round < 2000; ++round) {
    std::map<Pair, Candidate> merges;
    PairTable table(64);
    std::int32_t next_id = 3;
    for (std::uint32_t rank = 0; rank < 20; ++rank) {
      const Pair pair{below(next_id), below(next_id)};
      if (!merges.emplace(pair, Candidate{rank, next_id}).second) continue;
      table.insert(pair.first, pair.second, rank, next_id);
      ++next_id;
    }
    std::vector<std::int32_t> ids(static_cast<std::size_t>(below(30)) + 1);
    for (auto& id : ids) id = below(3);
    MergeScratch scratch;
    for (std::size_t i = 0; i < ids.size(); ++i) scratch.symbols.push_back({ids[i], static_cast<std::uint32_t>(i), 1});
    EncodeStats stats;
    merge_symbols(scratch, [&](const Symbol& a, const Symbol& b) { return table.find(a.id, b.id); }, stats);
    std::vector<std::int32_t> got;
    for (std::int32_t i = 0; i >= 0; i = scratch.symbols[static_cast<std::size_t>(i)].next) {
      got.push_back(scratch.symbols[static_cast<std::size_t>(i)].id);
    }
    ASSERT_EQ(got, merged_plainly(ids, merges)) << "round " << round;
    ASSERT_EQ(stats.merges, ids.size() - got.size());
  }
}

TEST(PairTable, FindsExactlyWhatWasInserted) {
  PairTable table(5000);
  for (std::int32_t i = 0; i < 5000; ++i) table.insert(i % 71, i, static_cast<std::uint32_t>(i), i + 1);
  table.insert(3, 3, 9999, 9999);  // known: the first stays
  for (std::int32_t i = 0; i < 5000; ++i) {
    ASSERT_EQ(table.find(i % 71, i).id, i + 1);
    ASSERT_EQ(table.find(i, -1).id, -1);
    ASSERT_EQ(table.find(i % 71 + 1, i + 1 + (i % 71 == 70 ? 1 : 0) * 5000).id < 0, i % 71 == 70 || i + 1 >= 5000);
  }
  EXPECT_EQ(table.size(), 5000U);
  EXPECT_EQ(PairTable().find(0, 0).id, -1);
}

}  // namespace
}  // namespace plumb::text
