// Errors as values: what every fallible call of Plumb returns.
//
// Three kinds of error exist in Plumb and only the first is a value:
//   1. the world (files, requests, devices) is wrong  -> Result<T> with a typed Error;
//   2. Plumb itself is wrong                           -> PLUMB_CHECK (base/check.h), replaceable handler;
//   3. the same in a hot loop                          -> PLUMB_DCHECK, compiled out of release builds.
//
// Thread rule: values; no shared state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace plumb {

// What kind of thing went wrong. Stable: the names (to_string) appear in --json output and in exit-code tables.
enum class ErrorCode : std::uint8_t {
  invalid_argument,         // a caller's value is outside its stated range
  not_found,                // a file, tensor, key or verb that was named does not exist
  io,                       // the operating system refused a read, write or map; message carries errno text
  truncated,                // the input ends before what it declares
  malformed,                // the input breaks its format's grammar
  limit_exceeded,           // a declared size, depth or count is above ParseLimits or a request limit
  unsupported,              // well-formed, but a feature Plumb does not implement; the message names it
  shape_mismatch,           // a tensor's shape or type is not what the model's config requires
  missing_tensor,           // required by the config, absent from the file
  unexpected_tensor,        // present in the file, unknown to the architecture
  out_of_memory,            // a reservation did not fit; the message carries the arithmetic
  allocation_while_encoding,// memory was asked for between begin and submit
  capacity,                 // a KV append or an admission beyond what was reserved
  device_fault,             // a step failed on the device; the message names kernel, layer and buffer
  device_lost,              // the device cannot be used any more
  cancelled,                // the caller asked to stop
  deadline_exceeded,        // a time limit passed
  internal,                 // a bug in Plumb that was caught before it did harm
};

// The stable lower-case name of a code, e.g. "shape_mismatch".
std::string_view to_string(ErrorCode code);

// A typed error that says where: `subject` is the file, request or device, `field` the tensor, key or argument inside it,
// `value` what was found. Any of the three may be empty when there is no such thing.
struct [[nodiscard]] Error {
  ErrorCode code = ErrorCode::internal;
  std::string message;  // one sentence, no trailing newline
  std::string subject;
  std::string field;
  std::string value;

  // "malformed: story.gguf: general.alignment: must be a power of two (found 3)"
  std::string to_string() const;
};

// A value of T or an Error. Must be looked at: discarding one is a compile warning (an error in this project's builds).
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}          // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}      // NOLINT(google-explicit-constructor)

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // REQUIRES: ok(). std::get throws otherwise, so a forgotten check cannot read garbage.
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // REQUIRES: !ok().
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

// Success without a value, or an Error. `return {};` is success.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)), ok_(false) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return ok_; }
  explicit operator bool() const { return ok_; }
  const Error& error() const& { return error_; }
  Error&& error() && { return std::move(error_); }

 private:
  Error error_;
  bool ok_ = true;
};

using Status = Result<void>;

}  // namespace plumb
