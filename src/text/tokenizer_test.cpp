#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "text/stream_decoder.h"
#include "text/tiny_tokenizer.h"
#include "text/utf8.h"

namespace plumb::text {
namespace {

using Ids = std::vector<std::int32_t>;

const Tokenizer& story() {
  static const Tokenizer tokenizer = [] {
    auto loaded = load_tokenizer_json(PLUMB_SOURCE_DIR "/models/story/tokenizer.json");
    EXPECT_TRUE(loaded.ok()) << loaded.error().to_string();
    return *loaded;
  }();
  return tokenizer;
}

Tokenizer tiny(const nlohmann::json& json) {
  auto loaded = tokenizer_from_json(json.dump(), "tiny.json");
  EXPECT_TRUE(loaded.ok()) << loaded.error().to_string();
  return *loaded;
}

Ids encoded(const Tokenizer& tokenizer, std::string_view text, const EncodeOptions& options = {}) {
  auto ids = tokenizer.encode(text, options);
  EXPECT_TRUE(ids.ok()) << ids.error().to_string();
  return *ids;
}

// A text of scalar values from everywhere: ASCII, white space, letters of many scripts, marks, emoji, unassigned, astral.
std::string random_text(std::mt19937& random) {
  static constexpr char32_t kStarts[] = {0x20,   0x41,   0x61,   0x30,   0x09,    0x27,    0xA0,    0x300,   0x370,   0x400,
                                         0x590,  0x600,  0x900,  0x1100, 0x1780,  0x2000,  0x2028,  0x3000,  0x3040,  0x4E00,
                                         0xAC00, 0xE000, 0xFE00, 0xFFF0, 0x10000, 0x1F300, 0x1F600, 0x20000, 0xE0100, 0x10FFF0};
  std::string text;
  const std::size_t length = random() % 40;
  for (std::size_t i = 0; i < length; ++i) {
    char32_t scalar = kStarts[random() % std::size(kStarts)] + static_cast<char32_t>(random() % 16);
    if (random() % 8 == 0) scalar = static_cast<char32_t>(random() % 0x110000);
    if (scalar >= 0xD800 && scalar <= 0xDFFF) scalar -= 0x800;
    append_utf8(text, scalar);
  }
  return text;
}

TEST(StoryTokenizer, GivesEveryHeldoutIdBack) {
  std::ifstream file(PLUMB_SOURCE_DIR "/models/story/heldout.u16", std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  Ids ids(bytes.size() / 2);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<std::uint8_t>(bytes[2 * i]) | (static_cast<std::uint8_t>(bytes[2 * i + 1]) << 8);
  }
  ASSERT_EQ(ids.size(), 1003203U);
  EXPECT_EQ(encoded(story(), story().decode(ids), {.parse_special = true}), ids);
}

TEST(StoryTokenizer, KnowsItsTokens) {
  EXPECT_EQ(story().vocab_size(), 4096);
  EXPECT_EQ(story().special_id("<|return|>"), 4088);
  EXPECT_EQ(story().special_id("<|pad|>"), 4095);
  EXPECT_EQ(story().special_id("<|retur"), std::nullopt);
  EXPECT_EQ(story().special_id("the"), std::nullopt);
  EXPECT_TRUE(story().is_special(4088));
  EXPECT_FALSE(story().is_special(0));
  EXPECT_FALSE(story().is_special(-1));
  EXPECT_FALSE(story().has_token(4096));
  EXPECT_EQ(story().token_bytes(0), "!");
  EXPECT_EQ(story().token_id("!"), 0);
  EXPECT_EQ(story().bos_id(), std::nullopt);
  EXPECT_FALSE(story().adds_bos());
}

TEST(StoryTokenizer, AnyTextGoesThereAndBack) {
  std::mt19937 random(11);
  for (int round = 0; round < 3000; ++round) {
    const std::string text = random_text(random);
    ASSERT_EQ(story().decode(encoded(story(), text)), text);
  }
}

TEST(StoryTokenizer, AnyBytesGoThereAndBack) {
  std::mt19937 random(12);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = random_text(random);
    for (char& c : bytes) {
      if (random() % 6 == 0) c = static_cast<char>(random() % 256);
    }
    ASSERT_EQ(story().decode(encoded(story(), bytes)), bytes);
    ASSERT_EQ(story().decode(encoded(story(), bytes, {.parse_special = true})), bytes);
  }
}

TEST(StoryTokenizer, ControlTokensAreFoundOnlyWhenAskedFor) {
  const std::string text = "<|start|>user<|message|>hi<|end|>";
  const Ids with = encoded(story(), text, {.parse_special = true});
  EXPECT_EQ(with.front(), 4091);
  EXPECT_EQ(with.back(), 4092);
  for (const std::int32_t id : encoded(story(), text)) EXPECT_FALSE(story().is_special(id));
  EXPECT_EQ(story().decode(with), text);
  EXPECT_EQ(story().decode(with, {.skip_special = true}), "userhi");
}

TEST(StoryTokenizer, IdsWithoutATokenAreSeen) {
  const Ids ids{0, -1, 4096, INT32_MAX, INT32_MIN, 1};
  EXPECT_EQ(story().decode(ids), "!\uFFFD\uFFFD\uFFFD\uFFFD\"");
}

TEST(StoryTokenizer, CallerNamesTheEndsAndTheFirstToken) {
  const auto named = load_tokenizer_json(PLUMB_SOURCE_DIR "/models/story/tokenizer.json",
                                         {.bos_id = 4086, .eos_ids = {4088, 4087, 4094}, .add_bos = true});
  ASSERT_TRUE(named.ok());
  EXPECT_EQ(named->bos_id(), 4086);
  EXPECT_EQ(named->eos_ids().size(), 3U);
  EXPECT_TRUE(named->adds_bos());
  EXPECT_EQ(encoded(*named, "!", {.add_bos = true}), (Ids{4086, 0}));
  EXPECT_EQ(story().encode("!", {.add_bos = true}).error().code, ErrorCode::invalid_argument);
  const auto wrong = load_tokenizer_json(PLUMB_SOURCE_DIR "/models/story/tokenizer.json", {.eos_ids = {5000}});
  EXPECT_EQ(wrong.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(wrong.error().value, "5000");
}

TEST(ByteLevelBpe, MergesByRankAndTakesWholePiecesWhenToldTo) {
  auto json = tiny_tokenizer_json({{"b", "c"}, {"a", "b"}, {"ab", "c"}});
  EXPECT_EQ(encoded(tiny(json), "abc"), (Ids{'a', 256}));  // bc first, and no merge of a with bc
  json["model"]["ignore_merges"] = true;
  EXPECT_EQ(encoded(tiny(json), "abc"), (Ids{258}));
  EXPECT_EQ(encoded(tiny(json), "abcb"), (Ids{'a', 256, 'b'}));
}

TEST(ByteLevelBpe, ReadsBothSpellingsOfMerges) {
  auto json = tiny_tokenizer_json({{" ", "a"}, {" a", "b"}});
  const Ids expected = encoded(tiny(json), " ab ab");
  for (auto& merge : json["model"]["merges"]) merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  EXPECT_EQ(encoded(tiny(json), " ab ab"), expected);
  EXPECT_EQ(expected, (Ids{257, 257}));
}

TEST(ByteLevelBpe, AddedTokensThatAreNotSpecialAreAlwaysFound) {
  const Tokenizer tokenizer = tiny(tiny_tokenizer_json());
  EXPECT_EQ(encoded(tokenizer, "<tool>"), (Ids{257}));
  EXPECT_FALSE(tokenizer.is_special(257));
  EXPECT_EQ(encoded(tokenizer, "<|end|>").size(), 7U);
}

TEST(ByteLevelBpe, AByteWithoutATokenIsNamed) {
  auto json = tiny_tokenizer_json();
  json["model"]["vocab"].erase(byte_level_spelling("q"));
  const auto ids = tiny(json).encode("quite");
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.error().code, ErrorCode::unsupported);
  EXPECT_EQ(ids.error().value, "113");
}

// A megabyte of anything takes work in proportion: twice the text, about twice the steps.
TEST(ByteLevelBpe, HostileTextTakesLinearWork) {
  const auto repeated = [](std::string_view unit, std::size_t bytes) {
    std::string text;
    while (text.size() < bytes) text += unit;
    return text;
  };
  for (const std::string_view unit : {"a", "A", " ", "aA", "Aa", "7", "😀", "\n", "'", "'s", "\u0301", "中", "\t \r\n", "a ", "!", "\xFF"}) {
    EncodeStats half;
    EncodeStats full;
    const std::string text = repeated(unit, std::size_t{1} << 20);
    const auto ids = story().encode(text, {}, &full);
    ASSERT_TRUE(ids.ok()) << unit << ": " << ids.error().to_string();
    ASSERT_TRUE(story().encode(repeated(unit, std::size_t{1} << 19), {}, &half).ok());
    EXPECT_EQ(story().decode(*ids), text);
    EXPECT_LE(full.pair_lookups, 3 * text.size()) << unit;
    EXPECT_LE(full.pair_lookups, 2 * half.pair_lookups + 1000) << unit;
    EXPECT_LE(full.pieces, text.size()) << unit;
  }
}

TEST(StreamDecoder, PiecesAreWholeAndJoinToTheDecodedText) {
  std::mt19937 random(13);
  for (int round = 0; round < 2000; ++round) {
    Ids ids(random() % 30);
    for (auto& id : ids) id = static_cast<std::int32_t>(random() % (random() % 4 == 0 ? 5000 : 256));
    StreamDecoder decoder(story());
    std::string joined;
    for (const std::int32_t id : ids) {
      const std::string piece = decoder.feed(id);
      ASSERT_EQ(utf8_valid_prefix(piece), piece.size());
      joined += piece;
    }
    joined += decoder.flush();
    ASSERT_FALSE(decoder.holding());
    ASSERT_EQ(joined, utf8_repaired(story().decode(ids)));
  }
}

TEST(StreamDecoder, HoldsAnIncompleteCharacter) {
  const Tokenizer tokenizer = tiny(tiny_tokenizer_json());
  StreamDecoder decoder(tokenizer);
  EXPECT_EQ(decoder.feed(0xF0), "");
  EXPECT_EQ(decoder.feed(0x9F), "");
  EXPECT_EQ(decoder.feed(0x98), "");
  EXPECT_TRUE(decoder.holding());
  EXPECT_EQ(decoder.feed(0x80), "😀");
  EXPECT_EQ(decoder.feed(0xE2), "");
  EXPECT_EQ(decoder.feed('A'), "\uFFFD" "A");
  EXPECT_EQ(decoder.feed(0xE2), "");
  EXPECT_EQ(decoder.flush(), "\uFFFD");
  EXPECT_EQ(decoder.flush(), "");
}

}  // namespace
}  // namespace plumb::text
