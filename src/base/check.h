// Checks for Plumb's own bugs. Input from outside never reaches these: it gets a Result.
//
// PLUMB_CHECK is on in every build and calls the handler with file, line and expression; the default handler writes one
// line to stderr and aborts, because a broken invariant must not reach a client as an answer. A host program replaces the
// handler (set_check_handler) to add its own report. The handler must not return.
#pragma once

namespace plumb {

using CheckHandler = void (*)(const char* file, int line, const char* expression);

// Thread rule: any thread; takes effect for later failures. Returns the previous handler.
CheckHandler set_check_handler(CheckHandler handler);

[[noreturn]] void check_failed(const char* file, int line, const char* expression);

}  // namespace plumb

#define PLUMB_CHECK(expression) \
  (static_cast<bool>(expression) ? static_cast<void>(0) : ::plumb::check_failed(__FILE__, __LINE__, #expression))

#ifdef NDEBUG
#define PLUMB_DCHECK(expression) static_cast<void>(0)
#else
#define PLUMB_DCHECK(expression) PLUMB_CHECK(expression)
#endif
