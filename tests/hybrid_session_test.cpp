// Sessions of models with recurrent layers: the file holds a state and the exact length it stands for (C23).
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "base/hash.h"
#include "plumb/plumb.h"
#include "serve/engine_impl.h"
#include "story.h"
#include "subprocess.h"

namespace plumb {
namespace {

using test::Answer;

Answer ask(Engine& engine, std::vector<std::int32_t> prompt, std::int32_t tokens) {
  Request r;
  r.prompt_ids = std::move(prompt);
  r.max_tokens = tokens;
  r.ignore_eos = true;
  return test::ask(engine, r);
}

class HybridSession : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { synth(model_, "0"); }
  void synth(const std::string& to, const char* seed) const {
    const auto made = test::run_plumb({"synth", "--preset", "hybrid-tiny", "--hf", to, "--seed", seed});
    ASSERT_EQ(made.status, 0) << made.err;
  }
  Engine open(const std::string& model) const {
    auto engine = Engine::open(model, {.threads = 2, .context = 1024, .loop = GetParam()});
    EXPECT_TRUE(engine.ok()) << engine.error().to_string();
    return std::move(engine).value();
  }
  Engine open() const { return open(model_); }
  // A prompt and its answer.
  std::vector<std::int32_t> talk(Engine& engine, std::int32_t prompt, std::int32_t tokens) const {
    std::vector<std::int32_t> text;
    for (std::int32_t t = 0; t < prompt; ++t) text.push_back((t * 31 + 7) % engine.info().vocab);
    const Answer a = ask(engine, text, tokens);
    text.insert(text.end(), a.ids.begin(), a.ids.end());
    return text;
  }
  // A file that somebody changed and whose checksum is right all the same.
  static std::string sealed(std::string bytes) {
    const std::size_t body = bytes.size() - sizeof(Digest128);
    const Digest128 digest = hash128(std::string_view(bytes).substr(0, body));
    std::memcpy(bytes.data() + body, &digest, sizeof(digest));
    return bytes;
  }
  Result<std::int32_t> restore(Engine& engine, const std::string& bytes) const {
    std::ofstream(file_, std::ios::binary) << bytes;
    return engine.restore_session(file_);
  }
  test::ScratchFolder scratch_;
  const std::string model_ = scratch_.path() + "/model";
  const std::string file_ = scratch_.file("session");
};
INSTANTIATE_TEST_SUITE_P(Engine, HybridSession, testing::Values("standard", "chained:4"),
                         [](const auto& tested) { return std::string(tested.param[0] == 's' ? "standard" : "chained"); });

TEST_P(HybridSession, GoesOnAfterARestartWithTheSameBits) {
  std::vector<std::int32_t> text;
  std::int32_t held = 0;
  Answer uninterrupted;
  {
    Engine engine = open();
    text = talk(engine, 200, 90);
    const auto saved = engine.save_session(text, file_);
    ASSERT_TRUE(saved.ok()) << saved.error().to_string();
    held = *saved;
    EXPECT_GE(held, 256) << "a state is kept every 64 positions of an answer";
    EXPECT_EQ(held % 16, 0);
    text.push_back(17);
    uninterrupted = ask(engine, text, 40);
    EXPECT_EQ(uninterrupted.end.usage.cached_tokens, held);
  }
  Engine again = open();
  const auto restored = again.restore_session(file_);
  ASSERT_TRUE(restored.ok()) << restored.error().to_string();
  EXPECT_EQ(*restored, held);
  const Answer a = ask(again, text, 40);
  EXPECT_EQ(a.end.usage.cached_tokens, held) << "the restored state was not used";
  EXPECT_EQ(a.ids, uninterrupted.ids);
  EXPECT_EQ(a.digests, uninterrupted.digests);
}

// A conversation whose last turn is edited branches where the message began, in the middle of a prompt that is one chunk otherwise.
TEST_P(HybridSession, AnEditedTurnStartsFromTheStateWhereItsMessageBegan) {
  std::vector<std::int32_t> text;
  for (std::int32_t t = 0; t < 200; ++t) text.push_back((t * 31 + 7) % 251);
  std::vector<std::int32_t> edited(text.begin(), text.begin() + 101);
  for (std::int32_t t = 0; t < 50; ++t) edited.push_back((t * 13 + 5) % 251);
  const auto cached_after = [&](std::vector<std::int32_t> branch_points) {
    Engine engine = open();
    Request first;
    first.prompt_ids = text;
    first.branch_points = std::move(branch_points);
    first.max_tokens = 4;
    first.ignore_eos = true;
    test::ask(engine, first);
    Engine cold = open();
    const Answer a = ask(engine, edited, 12);
    EXPECT_EQ(a.digests, ask(cold, edited, 12).digests);
    return a.end.usage.cached_tokens;
  };
  EXPECT_EQ(cached_after({}), 0) << "nothing says where the messages begin";
  EXPECT_EQ(cached_after({40, 100}), 96);
  EXPECT_EQ(cached_after({40, 150}), 32) << "behind the branch nothing is of use";
}

// The state stands for its length alone: a text that parts from it earlier begins anew, and nothing of it is heard.
TEST_P(HybridSession, AStateIsNotUsedForAShorterText) {
  Engine cold = open();
  Engine engine = open();
  std::vector<std::int32_t> text = talk(engine, 200, 90);
  const auto saved = engine.save_session(text, file_);
  ASSERT_TRUE(saved.ok());
  Engine again = open();
  ASSERT_TRUE(again.restore_session(file_).ok());
  std::vector<std::int32_t> shorter(text.begin(), text.begin() + *saved - 5);
  const Answer a = ask(again, shorter, 20);
  const Answer expected = ask(cold, shorter, 20);
  EXPECT_EQ(a.end.usage.cached_tokens, 0);
  EXPECT_EQ(a.digests, expected.digests);
  // Restoring what is held already changes nothing.
  EXPECT_EQ(*again.restore_session(file_), *saved);
  text.push_back(3);
  EXPECT_EQ(ask(again, text, 20).digests, ask(cold, text, 20).digests);
}

TEST_P(HybridSession, FilesThatLieAreRefusedAndChangeNothing) {
  Engine engine = open();
  const auto text = talk(engine, 100, 40);
  const auto saved = engine.save_session(text, file_);
  ASSERT_TRUE(saved.ok());
  const std::string whole = test::read_file(file_);
  const std::uint64_t state = engine.impl().executor().state_bytes();
  ASSERT_GT(state, 0U);
  const std::size_t length_at = whole.size() - sizeof(Digest128) - state - 4;
  Engine other = open();
  const auto refused = [&](const std::string& bytes, ErrorCode code, const std::string& field) {
    const auto r = restore(other, bytes);
    ASSERT_FALSE(r.ok()) << field;
    EXPECT_EQ(r.error().code, code) << r.error().to_string();
    if (!field.empty()) {
      EXPECT_EQ(r.error().field, field);
    }
    EXPECT_EQ(other.impl().tree()->nodes(), 0);
    EXPECT_EQ(other.impl().aux()->free_pages(), other.impl().aux()->pages());
  };
  for (const std::size_t cut : {std::size_t{9}, length_at, length_at + 4, whole.size() - 1}) refused(whole.substr(0, cut), ErrorCode::malformed, "");
  // Cut, and sealed again: the parts that are missing are named.
  refused(sealed(whole.substr(0, length_at) + std::string(sizeof(Digest128), '\0')), ErrorCode::truncated, "state length");
  refused(sealed(whole.substr(0, length_at + 8) + std::string(sizeof(Digest128), '\0')), ErrorCode::truncated, "state");
  for (const std::int32_t wrong : {*saved - 16, *saved + 16, 0, -1}) {
    std::string lying = whole;
    std::memcpy(lying.data() + length_at, &wrong, 4);
    refused(sealed(lying), ErrorCode::malformed, "state length");
  }
  std::string larger = whole;
  const std::uint64_t more = state + 4;
  std::memcpy(larger.data() + length_at - 8, &more, 8);
  refused(sealed(larger), ErrorCode::shape_mismatch, "state bytes");
  std::string old = whole;
  old[7] = '1';
  refused(sealed(old), ErrorCode::unsupported, "version");
  refused(sealed(whole.substr(0, whole.size() - sizeof(Digest128)) + "x" + std::string(sizeof(Digest128), '\0')), ErrorCode::malformed, "pages");

  synth(scratch_.path() + "/other", "1");
  Engine stranger = open(scratch_.path() + "/other");
  const auto foreign = restore(stranger, whole);
  ASSERT_FALSE(foreign.ok());
  EXPECT_EQ(foreign.error().code, ErrorCode::shape_mismatch);
  EXPECT_EQ(foreign.error().field, "identity");
  Engine story = open(test::kStoryModel);
  EXPECT_EQ(restore(story, whole).error().field, "identity");
  const auto good = restore(other, whole);
  ASSERT_TRUE(good.ok()) << good.error().to_string();
  EXPECT_EQ(*good, *saved);
}

}  // namespace
}  // namespace plumb
