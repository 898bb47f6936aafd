#include "base/printable.h"

namespace plumb {

std::size_t utf8_sequence_length(std::string_view bytes, std::size_t pos) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned lead = at(pos);
  if (lead < 0x80) return 1;
  std::size_t length = 0;
  unsigned low = 0x80;  // the permitted range of the second byte; the third and fourth are always 80..BF
  unsigned high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return 0;
  }
  if (bytes.size() - pos < length) return 0;
  if (at(pos + 1) < low || at(pos + 1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if (at(pos + i) < 0x80 || at(pos + i) > 0xBF) return 0;
  }
  return length;
}

bool is_utf8(std::string_view bytes) {
  for (std::size_t pos = 0; pos < bytes.size();) {
    const std::size_t length = utf8_sequence_length(bytes, pos);
    if (length == 0) return false;
    pos += length;
  }
  return true;
}

std::string printable(std::string_view bytes, std::size_t max_bytes) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  std::size_t pos = 0;
  while (pos < bytes.size()) {
    const std::size_t length = utf8_sequence_length(bytes, pos);
    const auto byte = static_cast<unsigned char>(bytes[pos]);
    const bool escape = length == 0 || byte < 0x20 || byte == 0x7F;
    if (out.size() + (escape ? 4 : length) > max_bytes) break;
    if (escape) {
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
      pos += 1;
    } else {
      out.append(bytes.substr(pos, length));
      pos += length;
    }
  }
  if (pos < bytes.size()) out += "...";
  return out;
}

}  // namespace plumb
