// Vocabularies as they come with a checkpoint: from GGUF keys, and from the files of the Hugging Face layout.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "format/checkpoint.h"
#include "model/open_tokenizer.h"
#include "text/outside_data.h"

namespace plumb {
namespace {

using Ids = std::vector<std::int32_t>;

TEST(OpenTokenizer, BundledModelNamesItsFirstAndLastTokens) {
  const auto checkpoint = format::Checkpoint::open(PLUMB_SOURCE_DIR "/models/story");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().to_string();
  const auto tokenizer = model::open_tokenizer(*checkpoint);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().to_string();
  EXPECT_EQ(tokenizer->bos_id(), 4086);
  EXPECT_EQ(Ids(tokenizer->eos_ids().begin(), tokenizer->eos_ids().end()), (Ids{4088, 4087, 4094}));
  EXPECT_FALSE(tokenizer->adds_bos());
}

TEST(OpenTokenizer, Gpt2FromGgufGivesTheIdsOfLlamaCpp) {
  PLUMB_NEEDS_VECTORS();
  const std::string base = text::kVectorFolder + "tokenizers/llama.cpp/ggml-vocab-gpt-2.gguf";
  const auto checkpoint = format::Checkpoint::open(base);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().to_string();
  const auto tokenizer = model::open_tokenizer(*checkpoint);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().to_string();
  EXPECT_EQ(tokenizer->vocab_size(), 50257);

  std::ifstream texts(base + ".inp", std::ios::binary);
  const std::string input((std::istreambuf_iterator<char>(texts)), {});
  const std::string separator = "\n__ggml_vocab_test__\n";
  std::ifstream lines(base + ".out");
  std::size_t cases = 0;
  for (std::size_t from = 0; from < input.size(); ++cases) {
    const std::size_t end = std::min(input.find(separator, from), input.size());
    const std::string text = input.substr(from, end - from);
    from = end + separator.size();
    std::string line;
    ASSERT_TRUE(std::getline(lines, line));
    std::istringstream words(line);
    Ids expected;
    for (std::int32_t id = 0; words >> id;) expected.push_back(id);
    const auto ids = tokenizer->encode(text);
    ASSERT_TRUE(ids.ok());
    EXPECT_EQ(*ids, expected) << "text: " << text;
    EXPECT_EQ(tokenizer->decode(*ids), text);
  }
  EXPECT_EQ(cases, 46U);
}

}  // namespace
}  // namespace plumb
