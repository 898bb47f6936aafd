#include "synth_vocabulary.h"

#include <array>
#include <string>
#include <utility>

#include "base/check.h"
#include "text/byte_level.h"
#include "text/utf8.h"

namespace plumb::app {

namespace {

constexpr std::uint64_t kHarmonyVocabulary = 201088;
constexpr std::uint64_t kHarmonyFirstSpecial = 199998;

// Ids of o200k_harmony; those between and after are reserved.
constexpr std::array<std::pair<std::uint64_t, const char*>, 10> kHarmonySpecials = {{
    {199998, "<|startoftext|>"},
    {199999, "<|endoftext|>"},
    {200002, "<|return|>"},
    {200003, "<|constrain|>"},
    {200005, "<|channel|>"},
    {200006, "<|start|>"},
    {200007, "<|end|>"},
    {200008, "<|message|>"},
    {200012, "<|call|>"},
    {200018, "<|endofprompt|>"},
}};

constexpr std::array<const char*, 10> kSmallSpecials = {"<|startoftext|>", "<|endoftext|>", "<|return|>", "<|constrain|>",
                                                        "<|channel|>",     "<|start|>",     "<|end|>",    "<|message|>",
                                                        "<|call|>",        "<|pad|>"};

void add(VocabularyData& out, std::string token, TokenType type) {
  out.tokens.push_back(std::move(token));
  out.types.push_back(type);
}

// The first ids in the order of GPT-2's files: the bytes that print, then the others.
void add_bytes(VocabularyData& out) {
  const auto stands_for_itself = [](int byte) { return text::byte_level_char(static_cast<std::uint8_t>(byte)) == static_cast<char32_t>(byte); };
  for (const bool printing : {true, false}) {
    for (int byte = 0; byte < 256; ++byte) {
      if (stands_for_itself(byte) != printing) continue;
      std::string spelled;
      text::append_utf8(spelled, text::byte_level_char(static_cast<std::uint8_t>(byte)));
      add(out, std::move(spelled), TokenType::normal);
    }
  }
}

// Syllables are one consonant and one vowel, so in a run of letters only one way of pairing them exists. Syllables join only
// behind a space, from the left, and longer joins have later ranks. So every token, encoded, is itself: whether a reader
// looks a piece up whole or builds it by merges makes no difference.
void add_merged(VocabularyData& out, std::uint64_t count) {
  const auto merge = [&](const std::string& left, std::string_view right) {
    if (out.merges.size() == count) return;
    out.merges.push_back(left + ' ' + std::string(right));
    add(out, left + std::string(right), TokenType::normal);
  };
  std::vector<std::string> syllables;
  for (const char consonant : std::string_view("bcdfghjklmnpqrstvwxyz")) {
    for (const char vowel : std::string_view("aeiou")) {
      merge(std::string(1, consonant), std::string(1, vowel));
      syllables.push_back({consonant, vowel});
    }
  }
  std::vector<std::string> words(1);
  text::append_utf8(words[0], text::byte_level_char(' '));
  while (out.merges.size() < count) {
    std::vector<std::string> longer;
    for (const std::string& word : words) {
      if (out.merges.size() == count) break;
      for (const std::string& syllable : syllables) {
        merge(word, syllable);
        longer.push_back(word + syllable);
      }
    }
    words = std::move(longer);
  }
}

}  // namespace

VocabularyData synth_vocabulary(std::uint64_t size) {
  PLUMB_CHECK(size >= kMinimumSynthVocabulary);
  VocabularyData out;
  out.tokens.reserve(size);
  out.types.reserve(size);
  add_bytes(out);
  if (size < kHarmonyVocabulary) {
    add_merged(out, size - 256 - kSmallSpecials.size());
    for (const char* special : kSmallSpecials) add(out, special, TokenType::control);
    const auto first = static_cast<std::int64_t>(size - kSmallSpecials.size());
    out.bos = first;
    out.eos = first + 2;
    out.pad = first + 9;
    out.all_eos = {first + 2, first + 1, first + 8};
    return out;
  }
  add_merged(out, kHarmonyFirstSpecial - 256);
  auto named = kHarmonySpecials.begin();
  for (std::uint64_t id = kHarmonyFirstSpecial; id < size; ++id) {
    if (named != kHarmonySpecials.end() && named->first == id) {
      add(out, named->second, TokenType::control);
      ++named;
    } else {
      add(out, "<|reserved_" + std::to_string(id) + "|>", TokenType::control);
    }
  }
  out.bos = 199998;
  out.eos = 200002;
  out.pad = 199999;
  out.all_eos = {200002, 199999, 200012};
  return out;
}

}  // namespace plumb::app
