// The printable alphabet of byte-level vocabularies.
//
// GPT-2's vocabulary files write every byte as one printable character: the bytes that print in Latin-1 stand for
// themselves, the other 68 are U+0100, U+0101, ... in byte order (a space becomes U+0120). tokenizer.json and GGUF files of
// this family spell tokens and merges that way.
//
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plumb::text {

// The character that stands for `byte`.
char32_t byte_level_char(std::uint8_t byte);

// Writes the bytes that `spelling` stands for to `bytes` (replaced). False, and `bytes` unspecified, when a character is
// outside the alphabet or the spelling is not valid UTF-8.
bool byte_level_bytes(std::string_view spelling, std::string& bytes);

}  // namespace plumb::text
