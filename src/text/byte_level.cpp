#include "text/byte_level.h"

#include <array>

#include "text/utf8.h"

namespace plumb::text {
namespace {

constexpr bool stands_for_itself(std::uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

constexpr std::array<char32_t, 256> make_chars() {
  std::array<char32_t, 256> chars{};
  char32_t next = 0x100;
  for (std::uint32_t byte = 0; byte < 256; ++byte) chars[byte] = stands_for_itself(byte) ? char32_t{byte} : next++;
  return chars;
}

constexpr std::array<char32_t, 256> kChars = make_chars();
constexpr std::uint32_t kCharLimit = 0x100 + 68;  // one past the last character of the alphabet

constexpr std::array<std::int16_t, kCharLimit> make_bytes() {
  std::array<std::int16_t, kCharLimit> bytes{};
  bytes.fill(-1);
  for (std::uint32_t byte = 0; byte < 256; ++byte) bytes[kChars[byte]] = static_cast<std::int16_t>(byte);
  return bytes;
}

constexpr std::array<std::int16_t, kCharLimit> kBytes = make_bytes();

}  // namespace

char32_t byte_level_char(std::uint8_t byte) { return kChars[byte]; }

bool byte_level_bytes(std::string_view spelling, std::string& bytes) {
  bytes.clear();
  for (std::size_t pos = 0; pos < spelling.size();) {
    const Utf8Step step = utf8_step(spelling, pos);
    if (!step.valid || step.value >= kCharLimit || kBytes[step.value] < 0) return false;
    bytes.push_back(static_cast<char>(static_cast<std::uint8_t>(kBytes[step.value])));
    pos += step.length;
  }
  return true;
}

}  // namespace plumb::text
