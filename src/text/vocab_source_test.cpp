#include "text/vocab_source.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "text/byte_level.h"
#include "text/outside_data.h"
#include "text/sentencepiece.h"
#include "text/stream_decoder.h"
#include "text/tiny_tokenizer.h"
#include "text/utf8.h"

namespace plumb::text {
namespace {

using Ids = std::vector<std::int32_t>;

// A vocabulary that owns what a VocabSource looks at.
struct OwnedVocab {
  std::string model = "llama";
  std::string pre;
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<std::int32_t> types;
  std::vector<std::string> merges;
  std::optional<std::int32_t> bos = std::nullopt;
  bool space_prefix = true;

  void add(std::string spelling, float score, std::int32_t type) {
    tokens.push_back(std::move(spelling));
    scores.push_back(score);
    types.push_back(type);
  }
  Result<Tokenizer> load() const {
    const std::vector<std::string_view> token_views(tokens.begin(), tokens.end());
    const std::vector<std::string_view> merge_views(merges.begin(), merges.end());
    VocabSource source;
    source.subject = "test.gguf";
    source.model = model;
    source.pre = pre;
    source.tokens = token_views;
    source.scores = scores;
    source.token_types = types;
    source.merges = merge_views;
    source.bos_id = bos;
    source.add_space_prefix = space_prefix;
    return tokenizer_from_vocab(source);
  }
};

OwnedVocab llama() {
  OwnedVocab vocab;
  vocab.add("<unk>", 0, 2);
  vocab.add("<s>", 0, 3);
  vocab.add("</s>", 0, 3);
  for (int byte = 0; byte < 256; ++byte) {
    constexpr char kDigits[] = "0123456789ABCDEF";
    vocab.add(std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">", 0, 6);
  }
  const std::pair<const char*, float> pieces[] = {{"▁", -9}, {"a", -9}, {"b", -9}, {"c", -9}, {"ab", -2}, {"bc", -1}, {"abc", -3},
                                                  {"▁a", -4}, {"▁abc", -5}, {"▁▁", -6}};
  for (const auto& [spelling, score] : pieces) vocab.add(spelling, score, 1);
  vocab.bos = 1;
  return vocab;
}

constexpr std::int32_t kFirstPiece = 259;

TEST(SentencePiece, MergesByScoreAndFallsBackToBytes) {
  const auto tokenizer = llama().load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().to_string();
  EXPECT_TRUE(tokenizer->adds_bos());
  // " abc": bc (-1) first, then a+bc (-3), then ▁+abc (-5).
  EXPECT_EQ(*tokenizer->encode("abc"), (Ids{kFirstPiece + 8}));
  EXPECT_EQ(*tokenizer->encode("abc", {.add_bos = true}), (Ids{1, kFirstPiece + 8}));
  EXPECT_EQ(*tokenizer->encode("é"), (Ids{kFirstPiece, 3 + 0xC3, 3 + 0xA9}));
  EXPECT_EQ(*tokenizer->encode(""), Ids{});
  EXPECT_EQ(*tokenizer->encode("</s>", {.parse_special = true}), (Ids{2}));
  EXPECT_EQ(tokenizer->encode("</s>")->size(), 5U);
}

TEST(SentencePiece, TheSpaceInFrontComesAndGoes) {
  const auto tokenizer = llama().load();
  ASSERT_TRUE(tokenizer.ok());
  const Ids ids = *tokenizer->encode("a");
  EXPECT_EQ(ids, (Ids{kFirstPiece + 7}));
  EXPECT_EQ(tokenizer->decode(ids), "a");
  EXPECT_EQ(tokenizer->decode(ids, {.continues = true}), " a");
  EXPECT_EQ(tokenizer->decode(Ids{1, kFirstPiece + 7}), "<s>a");
  StreamDecoder fresh(*tokenizer);
  std::string streamed;
  for (const std::int32_t id : {1, ids[0], ids[0]}) streamed += fresh.feed(id);
  EXPECT_EQ(streamed, "<s>a a");
  EXPECT_EQ(*tokenizer->encode("<s>a<s>a", {.parse_special = true}), (Ids{1, ids[0], 1, kFirstPiece + 1}));
  auto bare = llama();
  bare.space_prefix = false;
  EXPECT_EQ(*bare.load()->encode("a"), (Ids{kFirstPiece + 1}));
  EXPECT_EQ(bare.load()->decode(ids), " a");
}

TEST(SentencePiece, AnyBytesGoThereAndBack) {
  const auto tokenizer = llama().load();
  ASSERT_TRUE(tokenizer.ok());
  std::mt19937 random(21);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes;
    for (std::size_t length = random() % 30; length > 0; --length) {
      static constexpr std::string_view kUnits[] = {"a", "b", "c", " ", "▁", "é", "😀", "<s>", "<0x41>", "\xFF", "\xE2"};
      bytes += kUnits[random() % std::size(kUnits)];
    }
    ASSERT_EQ(tokenizer->decode(*tokenizer->encode(bytes)), bytes);
    ASSERT_EQ(tokenizer->decode(*tokenizer->encode(bytes, {.parse_special = true})), bytes);
  }
}

TEST(SentencePiece, HostileTextTakesLinearWork) {
  const auto tokenizer = llama().load();
  ASSERT_TRUE(tokenizer.ok());
  for (const std::string_view unit : {"a", " ", "ab", "abc", "😀", "x"}) {
    std::string text;
    while (text.size() < std::size_t{1} << 19) text += unit;
    EncodeStats stats;
    ASSERT_TRUE(tokenizer->encode(text, {}, &stats).ok());
    EXPECT_LE(stats.pair_lookups, 3 * text.size() + 3) << unit;
  }
}

TEST(SentencePiece, ByteSpellingsAreExact) {
  EXPECT_EQ(byte_of_spelling("<0x00>"), 0);
  EXPECT_EQ(byte_of_spelling("<0xfF>"), 255);
  for (const std::string_view wrong : {"<0x-1>", "<0xZZ>", "<0x1>", "<0x100>", "<0X11>", "<0x1 >", "0x11", "", "<0x+1>", "<0x11 "}) {
    EXPECT_EQ(byte_of_spelling(wrong), std::nullopt) << wrong;
  }
}

TEST(SentencePiece, PrioritiesTurnTheOrderOfScores) {
  const float ordered[] = {std::numeric_limits<float>::infinity(), 3.5F, 1e-40F, 0.0F, -1e-40F, -1.0F, -2.0F,
                           -std::numeric_limits<float>::infinity()};
  for (std::size_t i = 1; i < std::size(ordered); ++i) EXPECT_LT(priority_of_score(ordered[i - 1]), priority_of_score(ordered[i]));
  EXPECT_EQ(priority_of_score(-0.0F), priority_of_score(0.0F));
}

TEST(VocabSource, ReadsAByteLevelVocabulary) {
  const auto json = tiny_tokenizer_json({{" ", "a"}, {"a", "b"}});
  const auto expected = tokenizer_from_json(json.dump(), "tiny.json");
  ASSERT_TRUE(expected.ok());
  OwnedVocab vocab;
  vocab.model = "gpt2";
  vocab.pre = "gpt-2";
  vocab.tokens.resize(260);
  vocab.types.assign(260, 1);
  for (const auto& [spelling, id] : json["model"]["vocab"].items()) vocab.tokens[id.get<std::size_t>()] = spelling;
  vocab.tokens[258] = "<|end|>";
  vocab.types[258] = 3;
  vocab.tokens[259] = "<tool>";
  vocab.types[259] = 4;
  for (const auto& merge : json["model"]["merges"]) vocab.merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  const auto tokenizer = vocab.load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().to_string();
  for (const std::string_view text : {"a ab  ab\n", "<|end|>x<tool>", "é😀\xFF"}) {
    for (const bool specials : {false, true}) {
      EXPECT_EQ(*tokenizer->encode(text, {.parse_special = specials}), *expected->encode(text, {.parse_special = specials}));
    }
  }
  EXPECT_FALSE(tokenizer->adds_bos());
  for (const std::string_view name : known_pre_tokenizers()) {
    vocab.pre = name;
    EXPECT_TRUE(vocab.load().ok()) << name;
  }
}

TEST(VocabSource, UnusedTokensDecodeAndAreNeverProduced) {
  OwnedVocab vocab = llama();
  vocab.types[kFirstPiece + 8] = 5;  // ▁abc
  const auto tokenizer = vocab.load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().to_string();
  EXPECT_EQ(*tokenizer->encode("abc"), (Ids{kFirstPiece, kFirstPiece + 6}));
  EXPECT_EQ(tokenizer->decode(Ids{kFirstPiece + 8}, {.continues = true}), " abc");
}

TEST(VocabSource, OfEqualTokensTheFirstIsProduced) {
  OwnedVocab vocab = llama();
  vocab.add("c", -9, 1);
  const auto tokenizer = vocab.load();
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_EQ(*tokenizer->encode("cc"), (Ids{kFirstPiece, kFirstPiece + 3, kFirstPiece + 3}));
}

TEST(VocabSource, RefusesByName) {
  struct Case {
    const char* name;
    std::function<void(OwnedVocab&)> spoil;
    ErrorCode code;
    const char* field;
  };
  const Case cases[] = {
      {"model", [](OwnedVocab& v) { v.model = "rwkv"; }, ErrorCode::unsupported, "tokenizer.ggml.model"},
      {"no pre", [](OwnedVocab& v) { v.model = "gpt2"; }, ErrorCode::unsupported, "tokenizer.ggml.pre"},
      {"no tokens", [](OwnedVocab& v) { v.tokens.clear(); }, ErrorCode::malformed, "tokenizer.ggml.tokens"},
      {"scores", [](OwnedVocab& v) { v.scores.pop_back(); }, ErrorCode::malformed, "tokenizer.ggml.scores"},
      {"no scores", [](OwnedVocab& v) { v.scores.clear(); }, ErrorCode::malformed, "tokenizer.ggml.scores"},
      {"types", [](OwnedVocab& v) { v.types.pop_back(); }, ErrorCode::malformed, "tokenizer.ggml.token_type"},
      {"type", [](OwnedVocab& v) { v.types[5] = 77; }, ErrorCode::unsupported, "tokenizer.ggml.token_type[5]"},
      {"negative byte", [](OwnedVocab& v) { v.tokens[5] = "<0x-1>"; }, ErrorCode::malformed, "tokens[5]"},
      {"no byte", [](OwnedVocab& v) { v.tokens[5] = "<0xZZ>"; }, ErrorCode::malformed, "tokens[5]"},
      {"score", [](OwnedVocab& v) { v.scores[7] = std::nanf(""); }, ErrorCode::malformed, "tokens[7]"},
      {"bos", [](OwnedVocab& v) { v.bos = 100000; }, ErrorCode::invalid_argument, "bos_token_id"},
      {"bos below", [](OwnedVocab& v) { v.bos = -1; }, ErrorCode::invalid_argument, "bos_token_id"},
      {"long control token", [](OwnedVocab& v) { v.tokens[1] = std::string(5000, 'x'); }, ErrorCode::limit_exceeded,
       "tokenizer.ggml.tokens[1]"},
  };
  for (const Case& wrong : cases) {
    OwnedVocab vocab = llama();
    wrong.spoil(vocab);
    const auto loaded = vocab.load();
    ASSERT_FALSE(loaded.ok()) << wrong.name;
    EXPECT_EQ(loaded.error().code, wrong.code) << loaded.error().to_string();
    EXPECT_EQ(loaded.error().field, wrong.field) << loaded.error().to_string();
    EXPECT_EQ(loaded.error().subject, "test.gguf");
  }
}

TEST(Llama2c, ReadsTheStoriesVocabulary) {
  PLUMB_NEEDS_VECTORS();
  std::ifstream file(kVectorFolder + "stories260K/tok512.bin", std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  const auto tokenizer = tokenizer_from_llama2c(bytes, "tok512.bin");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().to_string();
  EXPECT_EQ(tokenizer->vocab_size(), 512);
  EXPECT_EQ(tokenizer->bos_id(), 1);

  std::ifstream golden_file(kVectorFolder + "stories260K/golden.json");
  const auto ids = nlohmann::json::parse(golden_file)["greedy_ids"].get<Ids>();
  std::ifstream text_file(kVectorFolder + "stories260K/golden_greedy.txt");
  const std::string text((std::istreambuf_iterator<char>(text_file)), {});
  // The golden text keeps the space in front of its first word.
  EXPECT_EQ(text.substr(0, 5), " Once");
  EXPECT_EQ(text, tokenizer->decode(ids, {.skip_special = true, .continues = true}) + text.substr(text.find_last_not_of('\n') + 1));
  const std::string decoded = tokenizer->decode(ids, {.skip_special = true});
  EXPECT_EQ(*tokenizer->encode(decoded, {.add_bos = true}), ids);

  for (std::size_t length = 0; length < bytes.size(); length += 11) {
    const auto cut = tokenizer_from_llama2c(std::string_view(bytes).substr(0, length), "tok512.bin");
    if (!cut.ok()) continue;
    EXPECT_LT(cut->vocab_size(), 512);
  }
  std::string wrong = bytes;
  wrong[11] = '\x7F';  // the first token's length
  EXPECT_EQ(tokenizer_from_llama2c(wrong, "tok512.bin").error().code, ErrorCode::malformed);
  wrong[11] = '\xFF';
  EXPECT_EQ(tokenizer_from_llama2c(wrong, "tok512.bin").error().code, ErrorCode::malformed);
}

}  // namespace
}  // namespace plumb::text
