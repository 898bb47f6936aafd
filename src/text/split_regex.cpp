#include "text/split_regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>

#include "text/utf8.h"

namespace plumb::text {
namespace {

constexpr std::size_t kMaxPattern = 16 * 1024;     // the longest in use is under 2 KiB
constexpr std::uint32_t kHeapLimitKib = 64 * 1024;  // backtracking memory of the interpreter, per match

// A match of the split expressions in use takes a few steps for each character it looks at. A limit that grows with the text
// lets a megabyte of one letter through and stops an expression that backtracks without end.
std::uint32_t match_limit(std::size_t bytes) {
  return static_cast<std::uint32_t>(std::min<std::size_t>(100'000 + 16 * bytes, UINT32_MAX));
}

template <auto Free>
struct Deleter {
  template <class T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};
using CompileContext = std::unique_ptr<pcre2_compile_context, Deleter<pcre2_compile_context_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Deleter<pcre2_match_context_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Deleter<pcre2_match_data_free>>;

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  const int length = pcre2_get_error_message(code, buffer.data(), buffer.size());
  if (length < 0) return "PCRE2 error " + std::to_string(code);
  return {buffer.begin(), buffer.begin() + length};
}

}  // namespace

struct SplitRegex::Code {
  explicit Code(pcre2_code* compiled) : code(compiled) {}
  ~Code() { pcre2_code_free(code); }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;

  pcre2_code* code;
};

Result<SplitRegex> SplitRegex::compile(std::string_view pattern, SplitKeep keep, const std::string& subject,
                                       const std::string& field) {
  if (pattern.size() > kMaxPattern) {
    return fail(ErrorCode::limit_exceeded, "a split expression may be " + std::to_string(kMaxPattern) + " bytes long",
                subject, field, std::to_string(pattern.size()));
  }
  PLUMB_ASSIGN(const std::string translated, translate_regex(pattern, subject, field));
  CompileContext context(pcre2_compile_context_create(nullptr));
  if (context == nullptr) return fail(ErrorCode::out_of_memory, "no memory for a regular expression", subject, field);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int code = 0;
  PCRE2_SIZE offset = 0;
  // MULTILINE: ^ and $ match at line ends in Oniguruma's Ruby syntax, which tokenizer.json uses.
  pcre2_code* compiled =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &code, &offset, context.get());
  if (compiled == nullptr) {
    return fail(ErrorCode::malformed,
                "not a regular expression: " + pcre2_message(code) + " at byte " + std::to_string(offset), subject, field,
                translated);
  }
  auto shared = std::make_shared<const Code>(compiled);
  // A platform without the just-in-time compiler keeps the interpreter: slower, the same result.
  static_cast<void>(::pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE));
  return SplitRegex(std::move(shared), keep);
}

Status SplitRegex::split(std::string_view text, const std::vector<Piece>& in, std::vector<Piece>& out) const {
  MatchContext context(pcre2_match_context_create(nullptr));
  MatchData data(pcre2_match_data_create(1, nullptr));
  if (context == nullptr || data == nullptr) return fail(ErrorCode::out_of_memory, "no memory to split text");
  pcre2_set_heap_limit(context.get(), kHeapLimitKib);

  for (const Piece& piece : in) {
    const std::string_view part = text.substr(piece.begin, piece.end - piece.begin);
    pcre2_set_match_limit(context.get(), match_limit(part.size()));
    const auto emit = [&](std::size_t begin, std::size_t end, bool matched) {
      const bool wanted = keep_ == SplitKeep::both || (keep_ == SplitKeep::matches) == matched;
      if (begin < end && wanted) {
        out.push_back({piece.begin + static_cast<std::uint32_t>(begin), piece.begin + static_cast<std::uint32_t>(end)});
      }
    };
    std::size_t gap = 0;   // start of the text since the last match
    std::size_t from = 0;  // where the next search starts
    while (from < part.size()) {
      const auto match = [&](std::uint32_t options) {
        return pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(part.data()), part.size(), from,
                           PCRE2_NO_UTF_CHECK | options, data.get(), context.get());
      };
      int found = match(0);
      if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = match(PCRE2_NO_JIT);
      if (found == PCRE2_ERROR_NOMATCH) break;
      if (found < 0) {
        return fail(ErrorCode::limit_exceeded, "splitting this text took too many steps: " + pcre2_message(found), "text",
                    "offset", std::to_string(piece.begin + from));
      }
      const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(data.get());
      // \K, which could put the start after the end, is refused by translate_regex.
      const std::size_t begin = bounds[0];
      const std::size_t end = bounds[1];
      emit(gap, begin, false);
      emit(begin, end, true);
      gap = end;
      from = end > begin ? end : begin < part.size() ? begin + utf8_step(part, begin).length : part.size();
    }
    emit(gap, part.size(), false);
  }
  return {};
}

}  // namespace plumb::text
