// Ids that other tokenizers give, on their vocabularies.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "text/outside_data.h"
#include "text/tokenizer.h"

namespace plumb::text {
namespace {

using Ids = std::vector<std::int32_t>;

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << "missing: " << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

// Large vocabularies are loaded once for all tests of this file.
const Tokenizer& vocabulary(const std::string& name) {
  static std::map<std::string, Tokenizer> loaded;
  const auto known = loaded.find(name);
  if (known != loaded.end()) return known->second;
  auto tokenizer = load_tokenizer_json(kVocabularyFolder + name + ".json");
  if (!tokenizer.ok()) throw std::runtime_error(tokenizer.error().to_string());
  return loaded.emplace(name, *std::move(tokenizer)).first->second;
}

std::vector<std::string> split_at(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  std::size_t from = 0;
  for (std::size_t at = text.find(separator); at != std::string::npos; at = text.find(separator, from)) {
    parts.push_back(text.substr(from, at - from));
    from = at + separator.size();
  }
  if (from < text.size()) parts.push_back(text.substr(from));
  return parts;
}

Ids numbers(std::string line) {
  std::replace(line.begin(), line.end(), ',', ' ');
  std::istringstream words(line);
  Ids ids;
  for (std::int32_t id = 0; words >> id;) ids.push_back(id);
  return ids;
}

void expect_ids(const Tokenizer& tokenizer, const std::string& text, const Ids& expected, const EncodeOptions& options = {}) {
  const auto ids = tokenizer.encode(text, options);
  ASSERT_TRUE(ids.ok()) << ids.error().to_string();
  EXPECT_EQ(*ids, expected) << "text: " << text;
  EXPECT_EQ(tokenizer.decode(*ids), text);
}

// tests/data/tiktoken_vectors.jsonl: one case a line, made with the tiktoken package.
void check_tiktoken(const std::string& encoding, const Tokenizer& tokenizer, std::size_t expected_cases) {
  std::size_t cases = 0;
  for (const std::string& line : split_at(contents(PLUMB_SOURCE_DIR "/tests/data/tiktoken_vectors.jsonl"), "\n")) {
    const auto vector = nlohmann::json::parse(line);
    if (vector["enc"] != encoding) continue;
    ++cases;
    expect_ids(tokenizer, vector["text"], vector["ids"].get<Ids>(), {.parse_special = vector["special"] == "all"});
  }
  EXPECT_EQ(cases, expected_cases);
}

TEST(Conformance, TiktokenO200kHarmony) {
  PLUMB_NEEDS_VOCABULARY("gpt-oss");
  check_tiktoken("o200k_harmony", vocabulary("gpt-oss"), 81);
}

TEST(Conformance, TiktokenO200kBase) {
  PLUMB_NEEDS_VOCABULARY("o200k_base");
  check_tiktoken("o200k_base", vocabulary("o200k_base"), 58);
}

TEST(Conformance, TiktokenCl100kBase) {
  PLUMB_NEEDS_VOCABULARY("cl100k_base");
  check_tiktoken("cl100k_base", vocabulary("cl100k_base"), 58);
}

void check_kitoken(const std::string& list, const Tokenizer& tokenizer) {
  const auto texts = split_at(contents(kVectorFolder + "tokenizers/kitoken/mixed_input.txt"), "\n");
  const auto lines = split_at(contents(kVectorFolder + "tokenizers/kitoken/mixed_tokens_" + list + ".txt"), "\n");
  ASSERT_EQ(texts.size(), 120U);
  ASSERT_EQ(lines.size(), texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) expect_ids(tokenizer, texts[i], numbers(lines[i]));
}

struct Kitoken {
  const char* list;
  const char* vocabulary;
};

class KitokenLines : public testing::TestWithParam<Kitoken> {};

TEST_P(KitokenLines, GiveTheirIds) {
  PLUMB_NEEDS_VECTORS();
  PLUMB_NEEDS_VOCABULARY(std::string(GetParam().vocabulary));
  check_kitoken(GetParam().list, vocabulary(GetParam().vocabulary));
}

INSTANTIATE_TEST_SUITE_P(Conformance, KitokenLines,
                         testing::Values(Kitoken{"gpt_oss", "gpt-oss"}, Kitoken{"o200k_base", "o200k_base"},
                                         Kitoken{"cl100k_base", "cl100k_base"}, Kitoken{"llama32", "llama-3.1"},
                                         Kitoken{"r1", "deepseek-v3"}),
                         [](const auto& test) { return std::string(test.param.list); });

void check_llama_cpp(const std::string& name, const Tokenizer& tokenizer) {
  const std::string base = kVectorFolder + "tokenizers/llama.cpp/ggml-vocab-" + name + ".gguf";
  const auto texts = split_at(contents(base + ".inp"), "\n__ggml_vocab_test__\n");
  const auto lines = split_at(contents(base + ".out"), "\n");
  ASSERT_EQ(texts.size(), 46U);
  ASSERT_EQ(lines.size(), texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) expect_ids(tokenizer, texts[i], numbers(lines[i]));
}

TEST(Conformance, LlamaCppLlamaBpe) {
  PLUMB_NEEDS_VECTORS();
  PLUMB_NEEDS_VOCABULARY("llama-3.1");
  check_llama_cpp("llama-bpe", vocabulary("llama-3.1"));
}

TEST(Conformance, LlamaCppQwen2) {
  PLUMB_NEEDS_VECTORS();
  PLUMB_NEEDS_VOCABULARY("qwen-3");
  check_llama_cpp("qwen2", vocabulary("qwen-3"));
}

TEST(Conformance, TheGptOssVocabularyIsKnown) {
  PLUMB_NEEDS_VOCABULARY("gpt-oss");
  const Tokenizer& tokenizer = vocabulary("gpt-oss");
  EXPECT_EQ(tokenizer.special_id("<|start|>"), 200006);
  EXPECT_EQ(tokenizer.special_id("<|return|>"), 200002);
  EXPECT_EQ(tokenizer.special_id("<|call|>"), 200012);
  EXPECT_FALSE(tokenizer.adds_bos());
  EXPECT_TRUE(vocabulary("gpt-oss").has_token(199997));
}

}  // namespace
}  // namespace plumb::text
