// The library's side of plumb/status.h: propagation macros and short constructors of errors.
#pragma once

#include "plumb/status.h"

namespace plumb {

// fail(ErrorCode::malformed, "must be a power of two", file, "general.alignment", "3")
inline Error fail(ErrorCode code, std::string message, std::string subject = {}, std::string field = {},
                  std::string value = {}) {
  return Error{code, std::move(message), std::move(subject), std::move(field), std::move(value)};
}

}  // namespace plumb

#define PLUMB_CONCAT_INNER(a, b) a##b
#define PLUMB_CONCAT(a, b) PLUMB_CONCAT_INNER(a, b)

// Returns the error of `expr` (a Status or Result) from the enclosing function, if it has one.
#define PLUMB_TRY(expr)                                          \
  do {                                                           \
    auto plumb_try_result = (expr);                              \
    if (!plumb_try_result.ok()) return std::move(plumb_try_result).error(); \
  } while (false)

// PLUMB_ASSIGN(auto x, make_x());  declares or assigns x from a Result, or returns its error.
#define PLUMB_ASSIGN(lhs, expr) PLUMB_ASSIGN_IMPL(PLUMB_CONCAT(plumb_result_, __LINE__), lhs, expr)
#define PLUMB_ASSIGN_IMPL(tmp, lhs, expr)             \
  auto tmp = (expr);                                  \
  if (!tmp.ok()) return std::move(tmp).error();       \
  lhs = std::move(tmp).value()
