// A made-up byte-level vocabulary of any size, with the harmony special tokens.
#pragma once

#include <cstdint>

#include "vocabulary.h"

namespace plumb::app {

inline constexpr std::uint64_t kMinimumSynthVocabulary = 256 + 10;

// Exactly `size` tokens: the 256 bytes, merged tokens, special tokens.
//
// Merged tokens are syllables ("ba") and then words of syllables with a space in front (" ba", " badi"); every merged token,
// encoded, is that one token. A vocabulary of the real gpt-oss size or above has the special tokens at their real ids (199,998
// on, reserved ones included); a smaller one has the ten that matter as its last ids.
// REQUIRES: size >= kMinimumSynthVocabulary.
VocabularyData synth_vocabulary(std::uint64_t size);

}  // namespace plumb::app
