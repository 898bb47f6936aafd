// Decoding ids one at a time into text that is always whole, valid UTF-8.
#pragma once

#include <cstdint>
#include <string>

#include "text/tokenizer.h"

namespace plumb::text {

// Bytes of a character that is not complete yet are held back (at most three). A byte sequence that cannot become a character
// is U+FFFD, one for each maximal subpart, as soon as that is certain; flush() does the same to what is still held. So for any
// ids and any way of feeding them, the pieces joined equal utf8_repaired(decode(ids)).
//
// Thread rule: one thread.
class StreamDecoder {
 public:
  // The tokenizer's data stays alive as long as the decoder.
  explicit StreamDecoder(Tokenizer tokenizer, DecodeOptions options = {})
      : tokenizer_(std::move(tokenizer)), options_(options) {}

  // The text that became complete with `id`; may be empty.
  std::string feed(std::int32_t id);

  // The same for bytes that come from elsewhere.
  std::string feed_bytes(std::string_view bytes);

  // The end: what is held back becomes U+FFFD. Afterwards the decoder starts anew as a continuation.
  std::string flush();

  bool holding() const { return !held_.empty(); }

 private:
  Tokenizer tokenizer_;
  DecodeOptions options_;
  std::string held_;
};

}  // namespace plumb::text
