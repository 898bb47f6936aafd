// What a kind of tokenizer must do: turn text between added tokens into ids.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/merge.h"
#include "text/vocabulary.h"

namespace plumb::text {

// Thread rule: immutable after loading.
class TextModel {
 public:
  virtual ~TextModel() = default;

  // Appends the ids of `text`. `at_start`: it begins the whole text. REQUIRES: valid UTF-8, not empty, below 2 GiB.
  virtual Status encode(const Vocabulary& vocabulary, std::string_view text, bool at_start, std::vector<std::int32_t>& ids,
                        EncodeStats& stats) const = 0;

  // Appends the ids of bytes that are not UTF-8, each on its own or merged as the model merges bytes.
  virtual Status encode_bytes(const Vocabulary& vocabulary, std::string_view bytes, std::vector<std::int32_t>& ids,
                              EncodeStats& stats) const = 0;
};

}  // namespace plumb::text
