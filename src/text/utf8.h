// UTF-8 as the Unicode standard defines it: no surrogates, no overlong forms, nothing above U+10FFFF.
//
// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace plumb::text {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// One step through a byte string. When !valid, `length` is the number of bytes of the maximal subpart: the longest prefix of
// the bytes at `pos` that could begin a character, at least 1 (Unicode 15, section 3.9, "U+FFFD substitution of maximal
// subparts"), and `value` is U+FFFD.
struct Utf8Step {
  char32_t value = 0;
  std::uint32_t length = 0;
  bool valid = false;
};

// REQUIRES: pos < text.size().
Utf8Step utf8_step(std::string_view text, std::size_t pos);

// Number of leading bytes of `text` that are whole, valid characters.
std::size_t utf8_valid_prefix(std::string_view text);

// True when `text`, which utf8_valid_prefix() says is broken at its start, may still become a character when bytes follow:
// it is 1 to 3 bytes long and every one of them fits.
bool utf8_may_continue(std::string_view text);

// Appends the character's bytes. REQUIRES: a scalar value (not a surrogate, at most U+10FFFF).
void append_utf8(std::string& out, char32_t scalar);

// A copy of `bytes` in which each maximal invalid subpart is one U+FFFD.
std::string utf8_repaired(std::string_view bytes);

}  // namespace plumb::text
