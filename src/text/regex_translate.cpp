// From the expression dialects of tokenizer files to PCRE2.
//
// What differs, and what is done about it:
//   \s \S      Unicode White_Space there; PCRE2's also takes U+180E. Rewritten with \p{Z}.
//   \p{Han}    the script there; PCRE2 10.40 and later read a bare name as script extensions. Rewritten as \p{sc:Han}.
//   \uHHHH     rewritten as \x{HHHH}.
//   \h \v \R \K \Q..., nested classes, &&, POSIX classes, {n,m}+, (?m), (*VERB), named groups: another meaning or none. Refused.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <cctype>
#include <cstdlib>

#include "text/split_regex.h"

namespace plumb::text {
namespace {

constexpr std::string_view kSpace = "\\x09-\\x0d\\x85\\p{Z}";  // the White_Space property, as class members

bool bare_scripts_are_extensions() {
  std::array<char, 64> version{};
  if (pcre2_config(PCRE2_CONFIG_VERSION, nullptr) > static_cast<int>(version.size())) return true;
  pcre2_config(PCRE2_CONFIG_VERSION, version.data());
  char* rest = nullptr;
  const long major = std::strtol(version.data(), &rest, 10);
  const long minor = *rest == '.' ? std::strtol(rest + 1, nullptr, 10) : 0;
  return major > 10 || minor >= 40;
}

class Translator {
 public:
  Translator(std::string_view pattern, const std::string& subject, const std::string& field)
      : pattern_(pattern), subject_(subject), field_(field) {}

  Result<std::string> run() {
    while (pos_ < pattern_.size()) {
      const char c = pattern_[pos_];
      if (c == '\\') {
        PLUMB_TRY(escape());
      } else if (in_class_) {
        PLUMB_TRY(class_member(c));
      } else if (c == '[') {
        open_class();
      } else if (c == '(') {
        PLUMB_TRY(group());
      } else if (c == '{') {
        PLUMB_TRY(braces());
      } else {
        copy(1);
      }
    }
    if (in_class_) return broken("a character class is not closed");
    return std::move(out_);
  }

 private:
  void copy(std::size_t count) {
    out_.append(pattern_.substr(pos_, count));
    pos_ += count;
  }
  bool next_is(std::string_view expected, std::size_t at) const { return pattern_.substr(at, expected.size()) == expected; }
  Error refuse(std::string_view construct) const {
    return fail(ErrorCode::unsupported, "this regular expression construct has no equal here", subject_, field_,
                std::string(construct));
  }
  Error broken(std::string message) const {
    return fail(ErrorCode::malformed, std::move(message), subject_, field_, std::string(pattern_));
  }

  void open_class() {
    in_class_ = true;
    copy(1);
    if (next_is("^", pos_)) copy(1);
    if (next_is("]", pos_)) copy(1);  // a bracket in first place is a member
  }

  Status class_member(char c) {
    if (c == '[') return refuse("[ inside a character class");
    if (next_is("&&", pos_)) return refuse("&& inside a character class");
    if (c == ']') in_class_ = false;
    copy(1);
    return {};
  }

  Status group() {
    if (next_is("(*", pos_)) return refuse("(*");
    if (!next_is("(?", pos_)) {
      copy(1);
      return {};
    }
    for (const std::string_view known : {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!", "(?i:", "(?i)"}) {
      if (next_is(known, pos_)) {
        copy(known.size());
        return {};
      }
    }
    return refuse(pattern_.substr(pos_, 4));
  }

  // A counted repeat, or a literal brace.
  Status braces() {
    std::size_t at = pos_ + 1;
    while (at < pattern_.size() && (std::isdigit(static_cast<unsigned char>(pattern_[at])) != 0 || pattern_[at] == ',')) ++at;
    if (at < pattern_.size() && pattern_[at] == '}' && at > pos_ + 1) {
      if (next_is(",", pos_ + 1)) return refuse("{,n}");
      if (next_is("+", at + 1)) return refuse("{n,m}+");
      copy(at + 1 - pos_);
    } else {
      copy(1);
    }
    return {};
  }

  Status escape() {
    if (pos_ + 1 >= pattern_.size()) return broken("ends in a backslash");
    const char c = pattern_[pos_ + 1];
    switch (c) {
      case 's':
        out_.append(in_class_ ? std::string(kSpace) : "[" + std::string(kSpace) + "]");
        pos_ += 2;
        return {};
      case 'S':
        if (in_class_) return refuse("\\S inside a character class");
        out_.append("[^" + std::string(kSpace) + "]");
        pos_ += 2;
        return {};
      case 'p':
      case 'P':
        return property();
      case 'u':
        return unicode_escape();
      case 'b':
        if (in_class_) return refuse("\\b inside a character class");
        copy(2);
        return {};
      case 'd': case 'D': case 'w': case 'W': case 'B': case 'A': case 'z':
      case 'r': case 'n': case 't': case 'f': case 'x':
        copy(2);
        return {};
      default:
        if (std::ispunct(static_cast<unsigned char>(c)) == 0) return refuse(pattern_.substr(pos_, 2));
        copy(2);
        return {};
    }
  }

  Status property() {
    if (!next_is("{", pos_ + 2)) {  // \pL
      if (pos_ + 2 >= pattern_.size()) return broken("ends in the middle of a property");
      copy(3);
      return {};
    }
    const std::size_t close = pattern_.find('}', pos_);
    if (close == std::string_view::npos) return broken("ends in the middle of a property");
    std::string_view name = pattern_.substr(pos_ + 3, close - pos_ - 3);
    const bool negated = !name.empty() && name.front() == '^';
    if (negated) name.remove_prefix(1);
    static const bool extensions = bare_scripts_are_extensions();
    const bool category = name.size() <= 2 || name == "Any";
    out_.append(pattern_.substr(pos_, 2)).append("{").append(negated ? "^" : "");
    if (!category && extensions && name.find_first_of("=:") == std::string_view::npos) out_.append("sc:");
    out_.append(name).append("}");
    pos_ = close + 1;
    return {};
  }

  Status unicode_escape() {
    const std::string_view digits = pattern_.substr(pos_ + 2, 4);
    if (digits.size() != 4 || digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos) {
      return refuse(pattern_.substr(pos_, 6));
    }
    out_.append("\\x{").append(digits).append("}");
    pos_ += 6;
    return {};
  }

  std::string_view pattern_;
  const std::string& subject_;
  const std::string& field_;
  std::string out_;
  std::size_t pos_ = 0;
  bool in_class_ = false;
};

}  // namespace

Result<std::string> translate_regex(std::string_view pattern, const std::string& subject, const std::string& field) {
  return Translator(pattern, subject, field).run();
}

}  // namespace plumb::text
