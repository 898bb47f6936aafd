#include "base/json_fields.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "base/printable.h"

namespace plumb {

using nlohmann::json;

std::string json_excerpt(const json& value) {
  // Large values are not written out only to be cut.
  if (value.is_array() && value.size() > 32) return "an array of " + std::to_string(value.size());
  if (value.is_object() && value.size() > 32) return "an object of " + std::to_string(value.size());
  if (value.is_string()) return printable("\"" + value.get_ref<const std::string&>().substr(0, 128) + "\"");
  return printable(value.dump(-1, ' ', false, json::error_handler_t::replace));
}

JsonFields::JsonFields(const json& object, std::string subject, std::string path)
    : object_(&object), subject_(std::move(subject)), path_(std::move(path)) {
  if (!object.is_object()) error_ = plumb::fail(ErrorCode::invalid_argument, "must be an object", subject_, path_, json_excerpt(object));
}

std::string JsonFields::name(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

bool JsonFields::has(const char* key) const {
  if (!object_->is_object()) return false;
  const auto it = object_->find(key);
  return it != object_->end() && !it->is_null();
}

const json* JsonFields::find(const char* key) {
  known_.emplace(key);
  return has(key) ? &*object_->find(key) : nullptr;
}

void JsonFields::fail(std::string_view key, std::string message, const json& value, ErrorCode code) {
  if (!error_) error_ = plumb::fail(code, std::move(message), subject_, name(key), json_excerpt(value));
}

void JsonFields::take(Status status) {
  if (!error_ && !status.ok()) error_ = std::move(status).error();
}

template <class T>
void JsonFields::whole(const json& value, const std::string& where, T& out) {
  using Limits = std::numeric_limits<T>;
  if (value.is_number_unsigned()) {  // what the parser makes of every whole number that is not negative
    const auto n = value.get<std::uint64_t>();
    if (n <= static_cast<std::uint64_t>(Limits::max())) {
      out = static_cast<T>(n);
      return;
    }
  } else if (value.is_number_integer() && std::is_signed_v<T>) {
    const auto n = value.get<std::int64_t>();
    if (n >= static_cast<std::int64_t>(Limits::min()) && n <= static_cast<std::int64_t>(Limits::max())) {
      out = static_cast<T>(n);
      return;
    }
  }
  fail(where, "must be a whole number from " + std::to_string(Limits::min()) + " to " + std::to_string(Limits::max()), value);
}

void JsonFields::read(const char* key, bool& out) {
  const json* value = find(key);
  if (value == nullptr) return;
  if (!value->is_boolean()) return fail(key, "must be true or false", *value);
  out = value->get<bool>();
}

void JsonFields::read(const char* key, std::int32_t& out) {
  if (const json* value = find(key)) whole(*value, key, out);
}
void JsonFields::read(const char* key, std::int64_t& out) {
  if (const json* value = find(key)) whole(*value, key, out);
}
void JsonFields::read(const char* key, std::uint64_t& out) {
  if (const json* value = find(key)) whole(*value, key, out);
}

void JsonFields::read(const char* key, double& out) {
  const json* value = find(key);
  if (value == nullptr) return;
  if (!value->is_number()) return fail(key, "must be a number", *value);
  out = value->get<double>();
}

void JsonFields::read(const char* key, float& out) {
  const json* value = find(key);
  if (value == nullptr) return;
  if (!value->is_number()) return fail(key, "must be a number", *value);
  const auto narrow = static_cast<float>(value->get<double>());
  if (!std::isfinite(narrow)) return fail(key, "must fit a 32-bit float", *value);
  out = narrow;
}

void JsonFields::read(const char* key, std::string& out) {
  const json* value = find(key);
  if (value == nullptr) return;
  if (!value->is_string()) return fail(key, "must be a string", *value);
  out = value->get_ref<const std::string&>();
}

void JsonFields::read(const char* key, std::vector<std::int32_t>& out) {
  const json* value = find(key);
  if (value == nullptr) return;
  if (!value->is_array()) return fail(key, "must be an array of whole numbers", *value);
  out.assign(value->size(), 0);
  for (std::size_t i = 0; i < out.size() && ok(); ++i) whole((*value)[i], std::string(key) + "[" + std::to_string(i) + "]", out[i]);
}

void JsonFields::read(const char* key, std::vector<std::string>& out) {
  const json* value = find(key);
  if (value == nullptr) return;
  if (!value->is_array()) return fail(key, "must be an array of strings", *value);
  out.clear();
  for (const json& element : *value) {
    if (!element.is_string()) return fail(std::string(key) + "[" + std::to_string(out.size()) + "]", "must be a string", element);
    out.push_back(element.get_ref<const std::string&>());
  }
}

Status JsonFields::finish() {
  if (error_) return *error_;
  for (const auto& [key, value] : object_->items()) {
    if (!known_.contains(key)) return plumb::fail(ErrorCode::invalid_argument, "is not a known field", subject_, name(printable(key, 64)), json_excerpt(value));
  }
  return {};
}

}  // namespace plumb
