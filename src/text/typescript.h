// JSON schemas as the TypeScript-like types in which gpt-oss was shown its tools.
#pragma once

#include <string>
#include <string_view>

#include "base/parse_limits.h"
#include "base/status.h"
#include "text/harmony.h"

namespace plumb::text {

// The type of a schema: object (with titles, descriptions, examples and defaults as comments), array, string with enum,
// number, integer, boolean, a list of types, oneOf. What has no equal in this notation (anyOf, $ref, patterns) is `any` or left
// out: the text informs the model and enforces nothing.
// Errors: malformed (not JSON, or not an object), limit_exceeded (depth; more than 1,024 properties in one object).
Result<std::string> typescript_type(std::string_view schema, const std::string& subject, const ParseLimits& limits = {});

// "## NAME", the description, and the functions inside "namespace NAME { ... }". Errors: those of typescript_type.
Result<std::string> tool_section(const ToolNamespace& tools, const ParseLimits& limits = {});

}  // namespace plumb::text
