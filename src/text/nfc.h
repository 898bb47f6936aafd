// Unicode normal form C.
#pragma once

#include <string>
#include <string_view>

namespace plumb::text {

// The canonical composition of `text`. REQUIRES: valid UTF-8. Takes n log n time also for a text of nothing but combining
// marks. Thread rule: pure function.
std::string to_nfc(std::string_view text);

}  // namespace plumb::text
