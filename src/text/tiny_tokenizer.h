// A small tokenizer.json for tests: 256 byte tokens, then one token for each merge, then <|end|> (special) and <tool> (not).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plumb::text {

// `bytes` in the byte-level alphabet.
std::string byte_level_spelling(std::string_view bytes);

nlohmann::json tiny_tokenizer_json(const std::vector<std::pair<std::string, std::string>>& merges = {});

}  // namespace plumb::text
