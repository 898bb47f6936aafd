// One line of a batch's results.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "answer.h"
#include "batch_request.h"

namespace plumb::app {

// How every result begins.
inline constexpr std::string_view kResultBegins = "{\"id\":";

// `answers`: of request.requests, in their order; all have finished, none with an error. `created`: seconds since 1970.
// Without a newline.
std::string result_line(const BatchRequest& request, const std::vector<Answer>& answers, const BatchReader& reader, const Engine& engine,
                        std::int64_t created);

// The result of a line that could not be read or done. `request` holds what is known of it.
std::string error_line(const BatchRequest& request, const Error& error);

// Whether a line of a file is one of these, and which kind.
bool is_result(const nlohmann::json& line);
bool is_error_result(const nlohmann::json& line);

}  // namespace plumb::app
