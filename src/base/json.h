// The one way JSON from outside enters Plumb: checkpoint headers, config.json, tokenizer.json, requests.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/parse_limits.h"
#include "base/status.h"

namespace plumb {

// Parses `text` as one JSON value (RFC 8259). `subject` is the file or request that errors name.
//
// Stricter than the grammar where two readers could disagree: duplicate keys in an object, invalid UTF-8, a raw NUL
// byte and anything after the value are errors. The parser does not recurse, so nesting costs no stack; it stops at
// limits.max_depth. Time and memory are linear in text.size() (a value costs at most about 40 bytes per byte of text).
//
// Errors: malformed (value holds line and column), limit_exceeded (text above limits.max_header_bytes, or depth).
// A key inside the document is named by its path, "rope_scaling.factor" or "layer_types[3]".
Result<nlohmann::json> parse_json(std::string_view text, std::string_view subject, const ParseLimits& limits = {});

}  // namespace plumb
