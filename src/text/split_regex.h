// Splitting text by the regular expression of a tokenizer file, with PCRE2.
//
// Tokenizer files write Oniguruma (tokenizer.json) or Rust (tiktoken) expressions. translate_regex() rewrites the few
// constructs that mean something else in PCRE2 and refuses, by name, those that have no equal. The text is valid UTF-8, so a
// match never scans it for validity again; the just-in-time matcher is used where it exists, and the interpreter, which needs
// no machine stack, takes over when the matcher's small stack is not enough. Both run under limits proportional to the text.
//
// Thread rule: a SplitRegex is immutable; what a call needs besides is its own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace plumb::text {

// The PCRE2 spelling of `pattern`. Errors: unsupported (names the construct), malformed (ends in the middle of one);
// `subject` and `field` go into the error.
Result<std::string> translate_regex(std::string_view pattern, const std::string& subject, const std::string& field);

// A byte range of the text being split.
struct Piece {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

enum class SplitKeep : std::uint8_t {
  both,     // matches and what lies between them are all pieces
  matches,  // what lies between matches is dropped
  gaps,     // matches are dropped
};

class SplitRegex {
 public:
  // Errors: those of translate_regex; malformed when PCRE2 rejects the expression.
  static Result<SplitRegex> compile(std::string_view pattern, SplitKeep keep, const std::string& subject,
                                    const std::string& field);

  // Splits each piece of `in` (each seen as a text of its own) and appends the parts, none empty, to `out`.
  // REQUIRES: `text` valid UTF-8 in every piece, below 2 GiB. Errors: limit_exceeded when matching takes more steps or
  // memory than a text of that length may.
  Status split(std::string_view text, const std::vector<Piece>& in, std::vector<Piece>& out) const;

 private:
  struct Code;
  SplitRegex(std::shared_ptr<const Code> code, SplitKeep keep) : code_(std::move(code)), keep_(keep) {}

  std::shared_ptr<const Code> code_;
  SplitKeep keep_;
};

}  // namespace plumb::text
