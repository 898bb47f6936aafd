// tokenizer.json as flat lists.
//
// A file of a 200,000-token vocabulary is 30 MB, nearly all of it two lists. They are read as the parser meets them, into one
// string and offsets; only the rest, which is small, becomes a document tree.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/parse_limits.h"
#include "base/status.h"

namespace plumb::text {

struct TokenizerJson {
  struct Entry {
    std::size_t offset = 0;  // spelling, in `strings`
    std::uint32_t length = 0;
    std::int32_t id = 0;
  };
  struct Merge {
    std::size_t offset = 0;  // both sides, or the whole "a b", in `strings`
    std::uint32_t left = 0;  // bytes of the first side
    std::uint32_t right = 0; // bytes of the second side
    bool joined = false;     // spelled as one string: left is its length
  };

  std::shared_ptr<const nlohmann::json> rest;  // an object: the document, with model.vocab and model.merges left empty
  std::string strings;
  std::vector<Entry> vocab;
  std::vector<Merge> merges;

  std::string_view spelling(const Entry& entry) const { return std::string_view(strings).substr(entry.offset, entry.length); }
};

// Errors: malformed (not JSON, or the lists have another shape), limit_exceeded (depth, string or entry counts).
Result<TokenizerJson> read_tokenizer_json(std::string_view json, const std::string& subject, const ParseLimits& limits);

}  // namespace plumb::text
