// What a tokenizer.json may not say, and how it is told.
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "text/tiny_tokenizer.h"
#include "text/tokenizer.h"

namespace plumb::text {
namespace {

using Json = nlohmann::json;

struct Case {
  const char* name;
  std::function<void(Json&)> spoil;
  ErrorCode code;
  const char* field;  // how the error's field begins
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"model type", [](Json& j) { j["model"]["type"] = "Unigram"; }, ErrorCode::unsupported, "model.type"},
      {"dropout", [](Json& j) { j["model"]["dropout"] = 0.1; }, ErrorCode::unsupported, "model.dropout"},
      {"byte fallback", [](Json& j) { j["model"]["byte_fallback"] = true; }, ErrorCode::unsupported, "model.byte_fallback"},
      {"prefix", [](Json& j) { j["model"]["continuing_subword_prefix"] = "##"; }, ErrorCode::unsupported,
       "model.continuing_subword_prefix"},
      {"suffix", [](Json& j) { j["model"]["end_of_word_suffix"] = "</w>"; }, ErrorCode::unsupported, "model.end_of_word_suffix"},
      {"unknown model key", [](Json& j) { j["model"]["cunning"] = 1; }, ErrorCode::unsupported, "model.cunning"},
      {"unknown root key", [](Json& j) { j["cunning"] = 1; }, ErrorCode::unsupported, "cunning"},
      {"unknown token for missing bytes",
       [](Json& j) {
         j["model"]["unk_token"] = "<|end|>";
         j["model"]["vocab"].erase("q");
       },
       ErrorCode::unsupported, "model.unk_token"},
      {"truncation", [](Json& j) { j["truncation"] = {{"max_length", 5}}; }, ErrorCode::unsupported, "truncation"},
      {"padding", [](Json& j) { j["padding"] = {{"strategy", "BatchLongest"}}; }, ErrorCode::unsupported, "padding"},
      {"normalizer", [](Json& j) { j["normalizer"] = {{"type", "Lowercase"}}; }, ErrorCode::unsupported, "normalizer"},
      {"no pre-tokenizer", [](Json& j) { j["pre_tokenizer"] = nullptr; }, ErrorCode::unsupported, "pre_tokenizer"},
      {"pre-tokenizer type", [](Json& j) { j["pre_tokenizer"] = {{"type", "Metaspace"}}; }, ErrorCode::unsupported,
       "pre_tokenizer.type"},
      {"prefix space", [](Json& j) { j["pre_tokenizer"]["add_prefix_space"] = true; }, ErrorCode::unsupported,
       "pre_tokenizer.add_prefix_space"},
      {"no byte level",
       [](Json& j) { j["pre_tokenizer"] = {{"type", "Digits"}, {"individual_digits", true}}; }, ErrorCode::unsupported,
       "pre_tokenizer"},
      {"split behaviour",
       [](Json& j) {
         j["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", "a"}}}, {"behavior", "MergedWithNext"}, {"invert", false}};
       },
       ErrorCode::unsupported, "pre_tokenizer.behavior"},
      {"split pattern",
       [](Json& j) {
         j["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", "(a"}}}, {"behavior", "Isolated"}, {"invert", false}};
       },
       ErrorCode::malformed, "pre_tokenizer"},
      {"step after byte level",
       [](Json& j) {
         const Json level = j["pre_tokenizer"];
         j["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {level, level}}};
       },
       ErrorCode::unsupported, "pre_tokenizer.pretokenizers[1]"},
      {"flag that is none", [](Json& j) { j["pre_tokenizer"]["use_regex"] = 1; }, ErrorCode::malformed, "pre_tokenizer.use_regex"},
      {"decoder", [](Json& j) { j["decoder"] = {{"type", "Metaspace"}}; }, ErrorCode::unsupported, "decoder.type"},
      {"no decoder", [](Json& j) { j["decoder"] = nullptr; }, ErrorCode::malformed, "decoder.type"},
      {"post-processor", [](Json& j) { j["post_processor"] = {{"type", "BertProcessing"}}; }, ErrorCode::unsupported,
       "post_processor.type"},
      {"template with an end",
       [](Json& j) {
         const Json sequence = {{"Sequence", {{"id", "A"}}}};
         const Json end = {{"SpecialToken", {{"id", "<|end|>"}}}};
         j["post_processor"] = {{"type", "TemplateProcessing"}, {"single", {sequence, end}}};
       },
       ErrorCode::unsupported, "post_processor.single"},
      {"template without its token",
       [](Json& j) {
         const Json sequence = {{"Sequence", {{"id", "A"}}}};
         const Json begin = {{"SpecialToken", {{"id", "<s>"}}}};
         j["post_processor"] = {{"type", "TemplateProcessing"}, {"single", {begin, sequence}}};
       },
       ErrorCode::malformed, "post_processor.single"},
      {"strip", [](Json& j) { j["added_tokens"][0]["rstrip"] = true; }, ErrorCode::unsupported, "added_tokens.rstrip"},
      {"single word", [](Json& j) { j["added_tokens"][0]["single_word"] = true; }, ErrorCode::unsupported,
       "added_tokens.single_word"},
      {"empty added token", [](Json& j) { j["added_tokens"][0]["content"] = ""; }, ErrorCode::malformed, "added_tokens.content"},
      {"long added token", [](Json& j) { j["added_tokens"][0]["content"] = std::string(2000, 'x'); }, ErrorCode::limit_exceeded,
       "added_tokens.content"},
      {"added id", [](Json& j) { j["added_tokens"][0]["id"] = -1; }, ErrorCode::malformed, "added_tokens.id"},
      {"added id is huge", [](Json& j) { j["added_tokens"][0]["id"] = 2000000000; }, ErrorCode::limit_exceeded, "model.vocab"},
      {"added id is absurd", [](Json& j) { j["added_tokens"][0]["id"] = 1e300; }, ErrorCode::malformed, "added_tokens.id"},
      {"added token is a number", [](Json& j) { j["added_tokens"][0] = 5; }, ErrorCode::malformed, "added_tokens.id"},
      {"added id twice", [](Json& j) { j["added_tokens"][0]["id"] = j["added_tokens"][1]["id"]; }, ErrorCode::malformed,
       "added_tokens"},
      {"vocabulary id", [](Json& j) { j["model"]["vocab"]["new"] = -3; }, ErrorCode::malformed, "model.vocab"},
      {"vocabulary id is huge", [](Json& j) { j["model"]["vocab"]["new"] = 1999999999; }, ErrorCode::limit_exceeded, "model.vocab"},
      {"vocabulary id overflows", [](Json& j) { j["model"]["vocab"]["new"] = 18446744073709551615ULL; }, ErrorCode::malformed,
       "model.vocab"},
      {"vocabulary id twice", [](Json& j) { j["model"]["vocab"]["new"] = 5; }, ErrorCode::malformed, "model.vocab"},
      {"vocabulary id is text", [](Json& j) { j["model"]["vocab"]["new"] = "x"; }, ErrorCode::malformed, "model.vocab"},
      {"vocabulary id is a list", [](Json& j) { j["model"]["vocab"]["new"] = Json::array(); }, ErrorCode::malformed, "model.vocab"},
      {"vocabulary id is an object", [](Json& j) { j["model"]["vocab"]["new"] = Json::object(); }, ErrorCode::malformed,
       "model.vocab"},
      {"no vocabulary", [](Json& j) { j["model"].erase("vocab"); }, ErrorCode::malformed, "model.vocab"},
      {"no model", [](Json& j) { j.erase("model"); }, ErrorCode::malformed, "model"},
      {"merge of strangers", [](Json& j) { j["model"]["merges"] = Json::array({Json::array({"xx", "y"})}); }, ErrorCode::malformed, "model.merges[0]"},
      {"merge into nothing", [](Json& j) { j["model"]["merges"] = Json::array({Json::array({"x", "y"})}); }, ErrorCode::malformed, "model.merges[0]"},
      {"merge of one", [](Json& j) { j["model"]["merges"] = Json::array({Json::array({"x"})}); }, ErrorCode::malformed,
       "model.merges[0]"},
      {"merge of three", [](Json& j) { j["model"]["merges"] = {{"x", "y", "z"}}; }, ErrorCode::malformed, "model.merges[0]"},
      {"merge without a space", [](Json& j) { j["model"]["merges"] = {"xy"}; }, ErrorCode::malformed, "model.merges[0]"},
      {"merge with two spaces", [](Json& j) { j["model"]["merges"] = {"x y z"}; }, ErrorCode::malformed, "model.merges[0]"},
      {"merges are an object", [](Json& j) { j["model"]["merges"] = {{"x", "y"}}; }, ErrorCode::malformed, "model.merges"},
      {"no merges", [](Json& j) { j["model"].erase("merges"); }, ErrorCode::malformed, "model.merges"},
      {"merge that is a number", [](Json& j) { j["model"]["merges"] = {1, 2}; }, ErrorCode::malformed, "model.merges[0]"},
      {"merge of numbers", [](Json& j) { j["model"]["merges"] = {{1, 2}}; }, ErrorCode::malformed, "model.merges[0]"},
      {"merge that is an object", [](Json& j) { j["model"]["merges"] = {{{"a", "b"}}}; }, ErrorCode::malformed, "model.merges[0]"},
  };
  return all;
}

TEST(TokenizerJson, RefusesByName) {
  for (const Case& wrong : cases()) {
    Json json = tiny_tokenizer_json();
    wrong.spoil(json);
    const auto loaded = tokenizer_from_json(json.dump(), "tiny.json");
    ASSERT_FALSE(loaded.ok()) << wrong.name;
    EXPECT_EQ(loaded.error().code, wrong.code) << wrong.name << ": " << loaded.error().to_string();
    EXPECT_EQ(loaded.error().subject, "tiny.json") << wrong.name;
    EXPECT_TRUE(loaded.error().field.starts_with(wrong.field)) << wrong.name << ": " << loaded.error().to_string();
  }
}

TEST(TokenizerJson, ReadsTheFirstTokenFromATemplate) {
  Json json = tiny_tokenizer_json();
  const Json sequence = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const Json begin = {{"SpecialToken", {{"id", "<|end|>"}, {"type_id", 0}}}};
  const Json level = {{"type", "ByteLevel"}, {"trim_offsets", false}};
  const Json around = {{"type", "TemplateProcessing"}, {"single", {begin, sequence}}, {"pair", Json::array()}};
  json["post_processor"] = {{"type", "Sequence"}, {"processors", {level, around}}};
  const auto loaded = tokenizer_from_json(json.dump(), "tiny.json");
  ASSERT_TRUE(loaded.ok()) << loaded.error().to_string();
  EXPECT_TRUE(loaded->adds_bos());
  EXPECT_EQ(loaded->bos_id(), 256);
}

TEST(TokenizerJson, ReadsSequencesOfSplits) {
  Json json = tiny_tokenizer_json({{"1", "2"}, {"a", "1"}, {"b", " "}});
  const Json digits = {{"type", "Digits"}, {"individual_digits", true}};
  const Json literal = {{"type", "Split"}, {"pattern", {{"String", " "}}}, {"behavior", "Removed"}, {"invert", false}};
  const Json level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  json["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {digits, literal, level}}};
  const auto loaded = tokenizer_from_json(json.dump(), "tiny.json");
  ASSERT_TRUE(loaded.ok()) << loaded.error().to_string();
  const auto ids = loaded->encode("a12 b c");
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(*ids, (std::vector<std::int32_t>{'a', '1', '2', 'b', 'c'}));
}

TEST(TokenizerJson, BrokenTextIsAnError) {
  const std::string whole = tiny_tokenizer_json({{"a", "b"}}).dump();
  for (std::size_t length = 0; length < whole.size(); length += 7) {
    const auto cut = tokenizer_from_json(whole.substr(0, length), "tiny.json");
    ASSERT_FALSE(cut.ok()) << length;
    EXPECT_EQ(cut.error().code, ErrorCode::malformed);
  }
  for (const std::string_view other : {"[]", "null", "5", "\"x\"", "{}", "{\"model\":[]}", "{\"model\":{\"vocab\":[]}}"}) {
    EXPECT_FALSE(tokenizer_from_json(other, "tiny.json").ok()) << other;
  }
  std::string bad_utf8 = whole;
  bad_utf8[bad_utf8.find("<tool>") + 1] = '\xFF';
  EXPECT_FALSE(tokenizer_from_json(bad_utf8, "tiny.json").ok());
}

TEST(TokenizerJson, EveryFlippedByteIsReadOrRefused) {
  const std::string whole = tiny_tokenizer_json({{"a", "b"}}).dump();
  for (std::size_t at = 0; at < whole.size(); at += 3) {
    for (const char flip : {'\x01', '\x10', '\x7F'}) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ flip);
      const auto loaded = tokenizer_from_json(changed, "tiny.json");
      if (loaded.ok()) {
        const auto ids = loaded->encode("ab <tool> \xFF <|end|>", {.parse_special = true});
        if (!ids.ok()) continue;
        EXPECT_LT(loaded->decode(*ids).size(), 10'000U);
      }
    }
  }
}

TEST(TokenizerJson, DepthIsBounded) {
  std::string deep = "{\"version\":";
  for (int i = 0; i < 10'000; ++i) deep += '[';
  const auto loaded = tokenizer_from_json(deep, "tiny.json");
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, ErrorCode::limit_exceeded);
}

TEST(TokenizerJson, SizeAndExistenceAreChecked) {
  EXPECT_EQ(load_tokenizer_json("/nonexistent/tokenizer.json").error().code, ErrorCode::not_found);
  const ParseLimits small{.max_header_bytes = 1000};
  EXPECT_EQ(load_tokenizer_json(PLUMB_SOURCE_DIR "/models/story/tokenizer.json", {}, small).error().code,
            ErrorCode::limit_exceeded);
  EXPECT_FALSE(load_tokenizer_json(PLUMB_SOURCE_DIR "/models/story").ok());
  const ParseLimits few{.max_array = 100};
  EXPECT_EQ(tokenizer_from_json(tiny_tokenizer_json().dump(), "tiny.json", {}, few).error().code, ErrorCode::limit_exceeded);
}

}  // namespace
}  // namespace plumb::text
