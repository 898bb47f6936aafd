#include "text/tiny_tokenizer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "text/byte_level.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace plumb::text {

std::string byte_level_spelling(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) append_utf8(out, byte_level_char(static_cast<std::uint8_t>(c)));
  return out;
}

nlohmann::json tiny_tokenizer_json(const std::vector<std::pair<std::string, std::string>>& merges) {
  using Json = nlohmann::json;
  Json vocab = Json::object();
  for (int byte = 0; byte < 256; ++byte) vocab[byte_level_spelling(std::string(1, static_cast<char>(byte)))] = byte;
  Json list = Json::array();
  for (const auto& [left, right] : merges) {
    const std::string merged = byte_level_spelling(left + right);
    if (!vocab.contains(merged)) vocab[merged] = vocab.size();
    list.push_back(Json::array({byte_level_spelling(left), byte_level_spelling(right)}));
  }
  return Json{{"version", "1.0"},
              {"truncation", nullptr},
              {"padding", nullptr},
              {"added_tokens", Json::array({{{"id", vocab.size()}, {"content", "<|end|>"}, {"special", true}},
                                            {{"id", vocab.size() + 1}, {"content", "<tool>"}, {"special", false}}})},
              {"normalizer", nullptr},
              {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
              {"post_processor", nullptr},
              {"decoder", {{"type", "ByteLevel"}}},
              {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", list}}}};
}

TEST(TinyTokenizer, HasWhatItsHeadSays) {
  const auto loaded = tokenizer_from_json(tiny_tokenizer_json({{"a", "b"}}).dump(), "tiny.json");
  ASSERT_TRUE(loaded.ok()) << loaded.error().to_string();
  EXPECT_EQ(loaded->vocab_size(), 259);
  EXPECT_EQ(loaded->token_id("ab"), 256);
  EXPECT_EQ(loaded->special_id("<|end|>"), 257);
  EXPECT_EQ(loaded->special_id("<tool>"), 258);
}

}  // namespace plumb::text
