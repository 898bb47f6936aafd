// Requests and events as text: one JSON document each, to be written to a file or sent to another process.
//
// Every field of the value is a member of the same name; enumerations are their names. A member that is absent, or null, is at its
// default (an event's empty usage, error and logits are not written); a member that is not known is an error, so that two versions
// cannot misunderstand each other silently. Reading what was written gives an equal value, floats and 64-bit numbers to the last
// bit, with one exception: all NaNs are one.
//
// JSON has no place for some values, which are written so:
//   - a string that is not UTF-8: {"hex": "ff00"}, its bytes;
//   - a float that is not finite: "nan", "inf" or "-inf";
//   - logit_digest: a string of 16 hexadecimal digits, since many readers round numbers above 2^53.
//
// Thread rule: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "plumb/plumb.h"
#include "plumb/status.h"

namespace plumb {

// One line, without a newline.
std::string to_json(const Request& request);
std::string to_json(const Event& event);

// Only the form is looked at; Engine::submit says whether the engine can do it.
// Errors: malformed (no JSON), limit_exceeded (longer than 64 MiB, or nested too deeply), invalid_argument (a member of another
// type, out of the range of its type, or unknown), which name the field and what was found.
Result<Request> request_from_json(std::string_view text);
Result<Event> event_from_json(std::string_view text);

}  // namespace plumb
