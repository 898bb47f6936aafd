#include "base/json.h"

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/printable.h"

namespace plumb {
namespace {

using nlohmann::json;

// Builds the value from parser events and refuses at the first thing that breaks a limit. Returning false from an event
// stops the parser; `error_` then says why.
class Builder {
 public:
  Builder(std::string_view subject, const ParseLimits& limits) : subject_(subject), limits_(limits) {}

  bool null() { return add(json(nullptr)); }
  bool boolean(bool value) { return add(json(value)); }
  bool number_integer(json::number_integer_t value) { return add(json(value)); }
  bool number_unsigned(json::number_unsigned_t value) { return add(json(value)); }
  bool number_float(json::number_float_t value, const std::string&) { return add(json(value)); }
  bool string(std::string& value) { return add(json(std::move(value))); }
  bool binary(json::binary_t&) { return false; }  // no event of the text format

  bool start_object(std::size_t) { return open(json::object()); }
  bool start_array(std::size_t) { return open(json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& key) {
    const auto [slot, inserted] = stack_.back()->get_ref<json::object_t&>().try_emplace(key);
    slot_ = &slot->second;
    key_ = &slot->first;
    if (!inserted) {
      error_ = fail(ErrorCode::malformed, "key appears twice in one object", std::string(subject_), path(), "");
      return false;
    }
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& exception) {
    // The text after the library's own "[json.exception.parse_error.101] " tag: line, column and what was expected.
    std::string_view what = exception.what();
    if (const auto tag = what.find("] "); tag != std::string_view::npos) what.remove_prefix(tag + 2);
    error_ = fail(ErrorCode::malformed, "not valid JSON", std::string(subject_), path(), printable(what, 240));
    return false;
  }

  std::optional<Error> take_error() { return std::move(error_); }
  json take() { return std::move(root_); }

 private:
  json* place(json&& value) {
    if (stack_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    json& parent = *stack_.back();
    if (parent.is_array()) {
      auto& array = parent.get_ref<json::array_t&>();
      array.push_back(std::move(value));
      return &array.back();
    }
    *slot_ = std::move(value);
    return slot_;
  }

  bool add(json&& value) {
    place(std::move(value));
    key_ = nullptr;
    return true;
  }

  bool open(json&& container) {
    if (stack_.size() >= limits_.max_depth) {
      error_ = fail(ErrorCode::limit_exceeded, "JSON is nested too deeply", std::string(subject_), path(),
                    "more than " + std::to_string(limits_.max_depth) + " levels");
      return false;
    }
    // A pointer into the parent stays good while this container is open: the parent grows only after it is closed.
    stack_.push_back(place(std::move(container)));
    keys_.push_back(key_);
    key_ = nullptr;
    return true;
  }

  bool close() {
    stack_.pop_back();
    keys_.pop_back();
    key_ = nullptr;
    return true;
  }

  // Where the parser stands: "rope_scaling.factor", "layer_types[3]".
  std::string path() const {
    std::string text;
    for (std::size_t level = 0; level < stack_.size(); ++level) {
      if (text.size() > 240) return text + "...";
      if (stack_[level]->is_array()) {
        // Closed levels count the element that is open inside them; the innermost one is about to take its next.
        const std::size_t size = stack_[level]->size();
        text += "[" + std::to_string(level + 1 < stack_.size() ? size - 1 : size) + "]";
        continue;
      }
      const std::string* key = level + 1 < stack_.size() ? keys_[level + 1] : key_;
      if (key == nullptr) continue;
      if (!text.empty()) text += ".";
      text += printable(*key, 64);
    }
    return text;
  }

  std::string_view subject_;
  const ParseLimits& limits_;
  json root_;
  std::vector<json*> stack_;              // open containers, outermost first
  std::vector<const std::string*> keys_;  // the key under which each of them stands, null in an array or at the root
  const std::string* key_ = nullptr;      // the key whose value comes next
  json* slot_ = nullptr;                  // and where that value goes
  std::optional<Error> error_;
};

}  // namespace

Result<json> parse_json(std::string_view text, std::string_view subject, const ParseLimits& limits) {
  if (text.size() > limits.max_header_bytes) {
    return fail(ErrorCode::limit_exceeded,
                "JSON text is larger than the limit of " + std::to_string(limits.max_header_bytes) + " bytes",
                std::string(subject), "", std::to_string(text.size()));
  }
  // The library takes a NUL byte for the end of its input, so what follows one would go unread.
  if (const auto nul = text.find('\0'); nul != std::string_view::npos) {
    return fail(ErrorCode::malformed, "not valid JSON", std::string(subject), "", "NUL at byte " + std::to_string(nul));
  }
  Builder builder(subject, limits);
  const bool parsed = json::sax_parse(text.begin(), text.end(), &builder);
  if (auto error = builder.take_error()) return std::move(*error);
  if (!parsed) return fail(ErrorCode::malformed, "not valid JSON", std::string(subject));
  return builder.take();
}

}  // namespace plumb
