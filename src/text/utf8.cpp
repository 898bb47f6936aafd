#include "text/utf8.h"

#include <cstring>

namespace plumb::text {
namespace {

// What may follow a lead byte: how many bytes, and the range of the first of them (Unicode 15, table 3-7).
struct Lead {
  std::uint8_t following = 0;  // 0 for bytes that cannot lead
  std::uint8_t low = 0x80;
  std::uint8_t high = 0xBF;
};

constexpr Lead lead_of(std::uint8_t byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {1, 0x80, 0xBF};
  if (byte == 0xE0) return {2, 0xA0, 0xBF};
  if (byte == 0xED) return {2, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {2, 0x80, 0xBF};
  if (byte == 0xF0) return {3, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {3, 0x80, 0xBF};
  if (byte == 0xF4) return {3, 0x80, 0x8F};
  return {};
}

constexpr char32_t kReplacementScalar = 0xFFFD;

}  // namespace

Utf8Step utf8_step(std::string_view text, std::size_t pos) {
  const auto first = static_cast<std::uint8_t>(text[pos]);
  if (first < 0x80) return {first, 1, true};
  const Lead lead = lead_of(first);
  if (lead.following == 0) return {kReplacementScalar, 1, false};
  char32_t value = first & (0x3FU >> lead.following);
  std::uint8_t low = lead.low;
  std::uint8_t high = lead.high;
  for (std::uint32_t i = 1; i <= lead.following; ++i) {
    if (pos + i >= text.size()) return {kReplacementScalar, i, false};
    const auto byte = static_cast<std::uint8_t>(text[pos + i]);
    if (byte < low || byte > high) return {kReplacementScalar, i, false};
    value = (value << 6) | (byte & 0x3FU);
    low = 0x80;
    high = 0xBF;
  }
  return {value, lead.following + 1U, true};
}

std::size_t utf8_valid_prefix(std::string_view text) {
  std::size_t pos = 0;
  while (pos < text.size()) {
    while (pos + 8 <= text.size()) {  // eight ASCII bytes at a time
      std::uint64_t word = 0;
      std::memcpy(&word, text.data() + pos, sizeof word);
      if ((word & 0x8080808080808080ULL) != 0) break;
      pos += 8;
    }
    if (pos >= text.size()) break;
    const Utf8Step step = utf8_step(text, pos);
    if (!step.valid) return pos;
    pos += step.length;
  }
  return pos;
}

bool utf8_may_continue(std::string_view text) {
  if (text.empty()) return false;
  const Utf8Step step = utf8_step(text, 0);
  return !step.valid && step.length == text.size() && lead_of(static_cast<std::uint8_t>(text[0])).following != 0;
}

void append_utf8(std::string& out, char32_t scalar) {
  const auto byte = [&out](char32_t value) { out.push_back(static_cast<char>(static_cast<std::uint8_t>(value))); };
  if (scalar < 0x80) {
    byte(scalar);
  } else if (scalar < 0x800) {
    byte(0xC0 | (scalar >> 6));
    byte(0x80 | (scalar & 0x3F));
  } else if (scalar < 0x10000) {
    byte(0xE0 | (scalar >> 12));
    byte(0x80 | ((scalar >> 6) & 0x3F));
    byte(0x80 | (scalar & 0x3F));
  } else {
    byte(0xF0 | (scalar >> 18));
    byte(0x80 | ((scalar >> 12) & 0x3F));
    byte(0x80 | ((scalar >> 6) & 0x3F));
    byte(0x80 | (scalar & 0x3F));
  }
}

std::string utf8_repaired(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const std::size_t valid = utf8_valid_prefix(bytes);
    out.append(bytes.substr(0, valid));
    bytes.remove_prefix(valid);
    if (bytes.empty()) break;
    out.append(kReplacement);
    bytes.remove_prefix(utf8_step(bytes, 0).length);
  }
  return out;
}

}  // namespace plumb::text
