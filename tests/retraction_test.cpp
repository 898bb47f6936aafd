// A request that gave its memory back and was computed again answers as if nothing had happened: the same tokens from the same bits,
// in both loops, with sliding windows and with recurrent layers, drawn greedily, by chance, and under penalties.
#include <gtest/gtest.h>

#include <algorithm>

#include "plumb/plumb.h"
#include "serve/engine_impl.h"
#include "story_or_hybrid.h"

namespace plumb {
namespace {

using test::Answer;

class Retraction : public test::StoryOrHybrid {
 protected:
  std::unique_ptr<Engine::Impl> open(std::int32_t pool_pages) const {
    auto engine = Engine::Impl::open(model_, {.engine = {.threads = 2, .context = 512, .chunk_rows = 32, .max_requests = 3, .loop = GetParam().loop}, .pool_pages = pool_pages});
    EXPECT_TRUE(engine.ok()) << engine.error().to_string();
    return *std::move(engine);
  }
};
INSTANTIATE_TEST_SUITE_P(Engine, Retraction, test::kBothModelsBothLoops, test::setting_name);

std::vector<Answer> run(Engine::Impl& engine, const std::vector<Request>& requests) {
  std::vector<RequestId> ids;
  for (const Request& r : requests) ids.push_back(engine.submit(r).value());
  std::vector<Answer> answers(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    Event e;
    while (engine.core().next(ids[i], e)) answers[i].take(e);
  }
  return answers;
}

TEST_P(Retraction, IsInvisible) {
  // Each needs 9 or 10 pages at its end; 16 hold one of them and a part of another.
  const auto shared = open(16);
  const auto alone = open(0);
  std::vector<Request> requests;
  for (std::int32_t i = 0; i < 3; ++i) {
    Request r;
    for (std::int32_t t = 0; t < 33 + 9 * i; ++t) r.prompt_ids.push_back((t * 41 + i * 97 + 3) % shared->info().vocab);
    r.max_tokens = 100;
    r.ignore_eos = true;
    requests.push_back(std::move(r));
  }
  requests[1].sampling = {.temperature = 0.9F, .top_p = 0.95F, .seed = 5};
  requests[2].sampling = {.repetition_penalty = 1.3F, .presence_penalty = 0.4F};
  const std::vector<Answer> answers = run(*shared, requests);
  std::int32_t retractions = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Answer expected = run(*alone, {requests[i]}).front();
    EXPECT_EQ(expected.end.usage.retractions, 0);
    EXPECT_EQ(answers[i].ids, expected.ids) << i;
    EXPECT_EQ(answers[i].digests, expected.digests) << i;
    EXPECT_EQ(answers[i].text, expected.text) << i;
    EXPECT_EQ(answers[i].end.finish, expected.end.finish);
    EXPECT_EQ(answers[i].end.usage.completion_tokens, 100);
    retractions += answers[i].end.usage.retractions;
  }
  EXPECT_GT(retractions, 0) << "nothing was retracted, so nothing was shown";
  EXPECT_EQ(answers[0].end.usage.retractions, 0) << "the oldest keeps its memory";
}

}  // namespace
}  // namespace plumb
