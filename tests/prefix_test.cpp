// The prefix tree on the real model: whatever was reused, resumed or rebuilt, the logits have the bits of a cold run.
#include <gtest/gtest.h>

#include <fstream>

#include "plumb/plumb.h"
#include "serve/engine_impl.h"
#include "story.h"

namespace plumb {
namespace {

const std::string& kModel = test::kStoryModel;
using test::heldout;

Engine open(bool prefix_cache, std::int32_t window_pages = 128, bool diag = false) {
  auto engine = Engine::open(kModel, {.threads = 2, .context = 2048, .chunk_rows = 64, .max_requests = 1, .prefix_cache = prefix_cache,
                                      .cache_positions = 2048, .cache_window_pages = window_pages, .diag = diag});
  EXPECT_TRUE(engine.ok()) << engine.error().to_string();
  return std::move(engine).value();
}

struct Outcome {
  std::vector<std::int32_t> ids;
  std::vector<std::uint64_t> digests;
  Usage usage;
};

Outcome run(Engine& engine, const std::vector<std::int32_t>& prompt, std::int32_t tokens) {
  Outcome r;
  Request request{.prompt_ids = prompt, .max_tokens = tokens, .ignore_eos = true};
  const auto done = engine.generate(request, [&](const Event& e) {
    if (e.kind == EventKind::token) {
      r.ids.push_back(e.token);
      r.digests.push_back(e.logit_digest);
    }
    return true;
  });
  EXPECT_TRUE(done.ok()) << done.error().to_string();
  if (done.ok()) r.usage = done->usage;
  return r;
}

void expect_same(const Outcome& a, const Outcome& b) {
  EXPECT_EQ(a.ids, b.ids);
  EXPECT_EQ(a.digests, b.digests);
}

// Leaves what no key or value is in every free page, as an earlier text might.
void spoil_free_pages(Engine& engine) {
  engine.impl().core().at_rest([&](const Scheduler&) {
    for (std::size_t c = 0; c < engine.impl().layout().classes.size(); ++c) {
      const std::vector<std::byte> nan(engine.impl().layout().classes[c].page_bytes, std::byte{0xFF});
      engine.impl().pool(c).peek_free().each([&](kv::PageId page) {
        EXPECT_TRUE(engine.impl().executor().write_page(static_cast<std::int32_t>(c), page, nan).ok());
      });
    }
  });
}

TEST(Prefix, AFollowUpReusesTheAnswerAndChangesNoBit) {
  Engine warm = open(true);
  Engine cold = open(false);
  std::vector<std::int32_t> prompt = heldout(1000, 37);
  const Outcome first = run(warm, prompt, 220);
  // The follow-up repeats prompt and answer and asks on. 37 + 220 tokens, the last of which was never computed.
  prompt.insert(prompt.end(), first.ids.begin(), first.ids.end());
  const auto more = heldout(5000, 9);
  prompt.insert(prompt.end(), more.begin(), more.end());
  const Outcome second = run(warm, prompt, 8);
  EXPECT_EQ(second.usage.cached_tokens, (37 + 219) / 16 * 16) << "every committed token is a hit, page rounding aside";
  EXPECT_EQ(second.usage.rebuilt_tokens, 0);
  expect_same(second, run(cold, prompt, 8));
}

TEST(Prefix, AnEditedLastTurnBranchesAtThePromptsEnd) {
  Engine warm = open(true);
  Engine cold = open(false);
  const std::vector<std::int32_t> prompt = heldout(2000, 320);
  run(warm, prompt, 100);
  // The answer is dropped (as harmony does with old reasoning) and another text follows the same prompt.
  std::vector<std::int32_t> edited = prompt;
  const auto more = heldout(9000, 20);
  edited.insert(edited.end(), more.begin(), more.end());
  const Outcome again = run(warm, edited, 6);
  EXPECT_EQ(again.usage.cached_tokens, 320);
  expect_same(again, run(cold, edited, 6));
}

TEST(Prefix, ABranchFarFromAnyWindowIsRebuiltBitForBit) {
  Engine warm = open(true, 10);  // hardly more than one window is kept
  Engine cold = open(false);
  const std::vector<std::int32_t> prompt = heldout(3000, 1100);
  run(warm, prompt, 1);
  std::vector<std::int32_t> branch(prompt.begin(), prompt.begin() + 800);
  const auto more = heldout(9500, 5);
  branch.insert(branch.end(), more.begin(), more.end());
  const Outcome rebuilt = run(warm, branch, 4);
  EXPECT_EQ(rebuilt.usage.cached_tokens + rebuilt.usage.rebuilt_tokens, 800);
  EXPECT_EQ(rebuilt.usage.rebuilt_tokens, 800 - (800 - 3 * 127 - 16) / 16 * 16) << "three sliding layers of 127 rows, and a page";
  expect_same(rebuilt, run(cold, branch, 4));
}

// The stand-ins for rows of a window that is gone are zeroed before anything reads them. Nothing that counts depends on them, but what is computed
// from them is looked at when every launch is.
TEST(Prefix, StandInsForALostWindowAreZeroes) {
  Engine engine = open(true, 10, true);
  const std::vector<std::int32_t> prompt = heldout(3000, 1100);
  run(engine, prompt, 1);
  spoil_free_pages(engine);
  std::vector<std::int32_t> branch(prompt.begin(), prompt.begin() + 800);
  EXPECT_GT(run(engine, branch, 2).usage.rebuilt_tokens, 0);
}

TEST(Prefix, AskingForLogitsOfThePromptComputesThem) {
  Engine engine = open(true);
  const std::vector<std::int32_t> prompt = heldout(4000, 100);
  run(engine, prompt, 1);
  int seen = 0;
  Request request{.prompt_ids = prompt, .max_tokens = 0, .logit_positions = {40, 99}};
  const auto done = engine.generate(request, [&](const Event& e) {
    seen += e.kind == EventKind::logits ? 1 : 0;
    return true;
  });
  ASSERT_TRUE(done.ok()) << done.error().to_string();
  EXPECT_EQ(seen, 2);
  EXPECT_LE(done->usage.cached_tokens, 40);
}

}  // namespace
}  // namespace plumb
