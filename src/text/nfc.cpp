#include "text/nfc.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/check.h"
#include "text/utf8.h"

namespace plumb::text {
namespace {

// No character decomposes into more (U+1F82 and its like reach four).
constexpr int kMaxDecomposed = 8;

int combining_class(utf8proc_int32_t scalar) { return utf8proc_get_property(scalar)->combining_class; }

}  // namespace

std::string to_nfc(std::string_view text) {
  // Nothing below U+0300 composes with what stands before it or decomposes beyond what composes again.
  bool plain = true;
  for (const char c : text) plain = plain && static_cast<unsigned char>(c) < 0xCC;
  if (plain) return std::string(text);

  std::vector<utf8proc_int32_t> scalars;
  scalars.reserve(text.size());
  for (std::size_t pos = 0; pos < text.size();) {
    const Utf8Step step = utf8_step(text, pos);
    pos += step.length;
    std::array<utf8proc_int32_t, kMaxDecomposed> parts{};
    int last_boundary_class = 0;
    const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(step.value), parts.data(), kMaxDecomposed,
                                               UTF8PROC_DECOMPOSE, &last_boundary_class);
    PLUMB_CHECK(count > 0 && count <= kMaxDecomposed);
    scalars.insert(scalars.end(), parts.begin(), parts.begin() + count);
  }
  // Canonical ordering. utf8proc's own sorts by exchanging neighbours, which is quadratic in a run of marks.
  for (auto run = scalars.begin(); run != scalars.end();) {
    if (combining_class(*run) == 0) {
      ++run;
      continue;
    }
    const auto end = std::find_if(run, scalars.end(), [](utf8proc_int32_t scalar) { return combining_class(scalar) == 0; });
    std::stable_sort(run, end, [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    run = end;
  }
  const auto composed = utf8proc_normalize_utf32(scalars.data(), static_cast<utf8proc_ssize_t>(scalars.size()),
                                                 static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  PLUMB_CHECK(composed >= 0);
  std::string out;
  out.reserve(text.size());
  for (utf8proc_ssize_t i = 0; i < composed; ++i) append_utf8(out, static_cast<char32_t>(scalars[static_cast<std::size_t>(i)]));
  return out;
}

}  // namespace plumb::text
