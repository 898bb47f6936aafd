// Making foreign bytes safe to put into an error message, a log line or a JSON report.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plumb {

// `bytes` as valid UTF-8 of one line: control characters and bytes that are not part of a valid UTF-8 sequence become
// \xHH, and text longer than `max_bytes` is cut there (never inside a sequence) and ends in "...".
// An error message built from a file must go through this, because the file chose the bytes.
std::string printable(std::string_view bytes, std::size_t max_bytes = 96);

// Length in bytes of the valid UTF-8 sequence that starts at bytes[pos], or 0 when there is none: no overlong forms, no
// surrogates, nothing above U+10FFFF (Unicode 15, table 3-7). REQUIRES: pos < bytes.size().
std::size_t utf8_sequence_length(std::string_view bytes, std::size_t pos);

// True when all of `bytes` is valid UTF-8.
bool is_utf8(std::string_view bytes);

}  // namespace plumb
