#include "text/stream_decoder.h"

#include <span>

#include "text/utf8.h"

namespace plumb::text {

std::string StreamDecoder::feed(std::int32_t id) {
  std::string bytes = tokenizer_.decode(std::span(&id, 1), options_);
  // A control token does not end the start of a text; decode() of a whole list sees it the same way.
  if (!tokenizer_.is_special(id)) options_.continues = true;
  return feed_bytes(bytes);
}

std::string StreamDecoder::feed_bytes(std::string_view bytes) {
  held_.append(bytes);
  std::string out;
  std::string_view rest = held_;
  while (!rest.empty()) {
    const std::size_t valid = utf8_valid_prefix(rest);
    out.append(rest.substr(0, valid));
    rest.remove_prefix(valid);
    if (rest.empty() || utf8_may_continue(rest)) break;
    out.append(kReplacement);
    rest.remove_prefix(utf8_step(rest, 0).length);
  }
  held_ = std::string(rest);
  return out;
}

std::string StreamDecoder::flush() {
  std::string out = utf8_repaired(held_);
  held_.clear();
  options_.continues = true;
  return out;
}

}  // namespace plumb::text
