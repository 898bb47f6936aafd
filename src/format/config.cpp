#include "format/config.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/mapped_file.h"
#include "base/printable.h"

namespace plumb::format {
namespace {

using nlohmann::json;
using Scalar = Config::Scalar;
using Value = Config::Value;

std::string real_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

std::string describe_scalar(const Scalar& value) {
  if (const auto* v = std::get_if<bool>(&value)) return *v ? "true" : "false";
  if (const auto* v = std::get_if<std::int64_t>(&value)) return std::to_string(*v);
  if (const auto* v = std::get_if<std::uint64_t>(&value)) return std::to_string(*v);
  if (const auto* v = std::get_if<double>(&value)) return real_text(*v);
  return '"' + printable(std::get<std::string>(value), 64) + '"';
}

std::string describe_value(const Value& value) {
  if (const auto* scalar = std::get_if<Scalar>(&value)) return describe_scalar(*scalar);
  const auto* list = std::get_if<std::vector<Scalar>>(&value);
  if (list == nullptr) return "an object";
  std::string text = "[";
  for (std::size_t i = 0; i < list->size(); ++i) {
    if (i == 8) return text + ", ... " + std::to_string(list->size()) + " in all]";
    text += (i == 0 ? "" : ", ") + describe_scalar((*list)[i]);
  }
  return text + "]";
}

// Nullopt for null and for containers.
std::optional<Scalar> scalar_of(const json& value) {
  if (value.is_boolean()) return Scalar(value.get<bool>());
  if (value.is_number_unsigned()) return Scalar(value.get<std::uint64_t>());
  if (value.is_number_integer()) return Scalar(value.get<std::int64_t>());
  if (value.is_number_float()) return Scalar(value.get<double>());
  if (value.is_string()) return Scalar(value.get<std::string>());
  return std::nullopt;
}

// A description of what was wanted, for the error, and the conversion of one scalar.
template <class T>
struct Wanted {
  std::string text;
  std::optional<T> (*convert)(const Scalar&, const UintRange&, const RealRange&);
  UintRange uint = {};
  RealRange real = {};
};

std::optional<std::uint64_t> to_uint(const Scalar& scalar, const UintRange& range, const RealRange&) {
  std::uint64_t value = 0;
  if (const auto* u = std::get_if<std::uint64_t>(&scalar)) {
    value = *u;
  } else if (const auto* i = std::get_if<std::int64_t>(&scalar); i != nullptr && *i >= 0) {
    value = static_cast<std::uint64_t>(*i);
  } else if (const auto* d = std::get_if<double>(&scalar);
             d != nullptr && *d >= 0 && *d < 0x1p53 && std::floor(*d) == *d) {
    value = static_cast<std::uint64_t>(*d);
  } else {
    return std::nullopt;
  }
  if (value < range.min || value > range.max) return std::nullopt;
  return value;
}

std::optional<double> to_real(const Scalar& scalar, const UintRange&, const RealRange& range) {
  double value = 0;
  if (const auto* d = std::get_if<double>(&scalar)) {
    value = *d;
  } else if (const auto* u = std::get_if<std::uint64_t>(&scalar)) {
    value = static_cast<double>(*u);
  } else if (const auto* i = std::get_if<std::int64_t>(&scalar)) {
    value = static_cast<double>(*i);
  } else {
    return std::nullopt;
  }
  if (!(value >= range.min && value <= range.max)) return std::nullopt;  // a NaN fails both
  return value;
}

template <class T>
std::optional<T> to_same(const Scalar& scalar, const UintRange&, const RealRange&) {
  const T* value = std::get_if<T>(&scalar);
  if (value == nullptr) return std::nullopt;
  return *value;
}

Wanted<std::uint64_t> want(UintRange range) {
  std::string text = "an integer";
  if (range.max != UINT64_MAX) {
    text += " from " + std::to_string(range.min) + " to " + std::to_string(range.max);
  } else {
    text += " of at least " + std::to_string(range.min);
  }
  return {std::move(text), &to_uint, range, {}};
}

Wanted<double> want(RealRange range) {
  return {"a number from " + real_text(range.min) + " to " + real_text(range.max), &to_real, {}, range};
}

Wanted<bool> want_bool() { return {"true or false", &to_same<bool>}; }
Wanted<std::string> want_string() { return {"a string", &to_same<std::string>}; }

template <class T>
Result<T> one(const Config& config, std::string_view key, const Value& value, const Wanted<T>& wanted) {
  if (const auto* scalar = std::get_if<Scalar>(&value)) {
    if (auto converted = wanted.convert(*scalar, wanted.uint, wanted.real)) return std::move(*converted);
  }
  return config.error(key, "must be " + wanted.text, describe_value(value));
}

template <class T>
Result<std::vector<T>> many(const Config& config, std::string_view key, const Value& value, const Wanted<T>& wanted) {
  std::vector<T> out;
  const auto add = [&](const Scalar& scalar) {
    auto converted = wanted.convert(scalar, wanted.uint, wanted.real);
    if (!converted) return false;
    out.push_back(std::move(*converted));
    return true;
  };
  if (const auto* scalar = std::get_if<Scalar>(&value)) {
    if (add(*scalar)) return out;
    return config.error(key, "must be " + wanted.text + " or a list of such", describe_value(value));
  }
  const auto* list = std::get_if<std::vector<Scalar>>(&value);
  if (list == nullptr) return config.error(key, "must be a list, each " + wanted.text, describe_value(value));
  for (std::size_t i = 0; i < list->size(); ++i) {
    if (!add((*list)[i])) {
      return config.error(std::string(key) + "[" + std::to_string(i) + "]", "must be " + wanted.text,
                          describe_scalar((*list)[i]));
    }
  }
  return out;
}

}  // namespace

Error Config::error(std::string_view key, std::string message, std::string value) const {
  return fail(ErrorCode::malformed, std::move(message), subject_, printable(key), std::move(value));
}

Result<Config> Config::from_json(std::string_view text, std::string_view subject, const ParseLimits& limits) {
  PLUMB_ASSIGN(const json root, parse_json(text, subject, limits));
  Config config;
  config.subject_ = subject;
  if (!root.is_object())
    return fail(ErrorCode::malformed, "must hold one JSON object", config.subject_, "", root.type_name());
  // Recursion is bounded: parse_json has refused nesting above limits.max_depth.
  const auto flatten = [&config](const auto& self, const json& object, const std::string& prefix) -> void {
    for (const auto& [name, value] : object.items()) {
      const std::string key = prefix + name;
      if (value.is_null()) continue;
      if (const auto scalar = scalar_of(value)) {
        config.entries_.push_back({key, *scalar});
      } else if (value.is_object()) {
        config.entries_.push_back({key, Branch{}});
        self(self, value, key + ".");
      } else {
        std::vector<Scalar> list;
        for (const json& element : value) {
          if (const auto element_scalar = scalar_of(element)) list.push_back(*element_scalar);
        }
        config.entries_.push_back({key, list.size() == value.size() ? Value(std::move(list)) : Value(Branch{})});
      }
    }
  };
  flatten(flatten, root, "");
  PLUMB_TRY(config.sort_entries());
  return config;
}

Result<Config> Config::from_file(const std::string& path, const ParseLimits& limits) {
  PLUMB_ASSIGN(const MappedFile file, MappedFile::open(path, limits));
  const auto bytes = file.bytes();
  auto config = from_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path, limits);
  PLUMB_TRY(file.check());
  return config;
}

Result<Config> Config::from_metadata(const Metadata& metadata, std::string_view subject, const ParseLimits& limits) {
  Config config;
  config.subject_ = subject;
  for (const MetaEntry& entry : metadata.entries()) {
    const auto* array = std::get_if<MetaArray>(&entry.value);
    if (array == nullptr) {
      std::visit(
          [&]<class T>(const T& value) {
            if constexpr (!std::is_same_v<T, MetaArray>) config.entries_.push_back({entry.key, Scalar(value)});
          },
          entry.value);
      continue;
    }
    if (array->size() > limits.max_layers) continue;
    std::vector<Scalar> list;
    if (array->element() == MetaType::string) {
      PLUMB_ASSIGN(const auto strings, array->strings());
      for (const auto text : strings) list.emplace_back(std::string(text));
    } else if (array->element() == MetaType::boolean) {
      PLUMB_ASSIGN(const auto flags, array->booleans());
      for (const bool flag : flags) list.emplace_back(flag);
    } else if (array->element() == MetaType::f32 || array->element() == MetaType::f64) {
      PLUMB_ASSIGN(const auto reals, array->doubles());
      for (const double real : reals) list.emplace_back(real);
    } else {
      auto integers = array->integers();
      if (!integers.ok()) return config.error(entry.key, integers.error().message);
      for (const std::int64_t integer : integers.value()) list.emplace_back(integer);
    }
    config.entries_.push_back({entry.key, std::move(list)});
  }
  PLUMB_TRY(config.sort_entries());
  return config;
}

Status Config::sort_entries() {
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) { return a.key < b.key; });
  const auto twice = std::adjacent_find(entries_.begin(), entries_.end(),
                                        [](const Entry& a, const Entry& b) { return a.key == b.key; });
  if (twice != entries_.end()) return error(twice->key, "key stands twice, once spelled with a dot and once nested");
  return {};
}

const Value* Config::find(std::string_view key) const {
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), key,
                                   [](const Entry& e, std::string_view k) { return e.key < k; });
  return at != entries_.end() && at->key == key ? &at->value : nullptr;
}

Result<const Value*> Config::require(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return fail(ErrorCode::not_found, "required key is missing", subject_, printable(key));
  return value;
}

bool Config::has(std::string_view key) const { return find(key) != nullptr; }

std::string_view Config::first_of(std::initializer_list<std::string_view> keys) const {
  for (const auto key : keys) {
    if (has(key)) return key;
  }
  return keys.size() == 0 ? std::string_view{} : *keys.begin();
}

Result<std::uint64_t> Config::require_uint(std::string_view key, UintRange range) const {
  PLUMB_ASSIGN(const Value* value, require(key));
  return one(*this, key, *value, want(range));
}

Result<std::uint64_t> Config::optional_uint(std::string_view key, std::uint64_t fallback, UintRange range) const {
  const Value* value = find(key);
  if (value == nullptr) return fallback;
  return one(*this, key, *value, want(range));
}

Result<double> Config::require_real(std::string_view key, RealRange range) const {
  PLUMB_ASSIGN(const Value* value, require(key));
  return one(*this, key, *value, want(range));
}

Result<double> Config::optional_real(std::string_view key, double fallback, RealRange range) const {
  const Value* value = find(key);
  if (value == nullptr) return fallback;
  return one(*this, key, *value, want(range));
}

Result<bool> Config::require_bool(std::string_view key) const {
  PLUMB_ASSIGN(const Value* value, require(key));
  return one(*this, key, *value, want_bool());
}

Result<bool> Config::optional_bool(std::string_view key, bool fallback) const {
  const Value* value = find(key);
  if (value == nullptr) return fallback;
  return one(*this, key, *value, want_bool());
}

Result<std::string> Config::require_string(std::string_view key) const {
  PLUMB_ASSIGN(const Value* value, require(key));
  return one(*this, key, *value, want_string());
}

Result<std::string> Config::optional_string(std::string_view key, std::string fallback) const {
  const Value* value = find(key);
  if (value == nullptr) return fallback;
  return one(*this, key, *value, want_string());
}

Result<std::vector<std::uint64_t>> Config::require_uints(std::string_view key, UintRange range) const {
  PLUMB_ASSIGN(const Value* value, require(key));
  return many(*this, key, *value, want(range));
}

Result<std::vector<double>> Config::require_reals(std::string_view key, RealRange range) const {
  PLUMB_ASSIGN(const Value* value, require(key));
  return many(*this, key, *value, want(range));
}

Result<std::vector<bool>> Config::require_bools(std::string_view key) const {
  PLUMB_ASSIGN(const Value* value, require(key));
  return many(*this, key, *value, want_bool());
}

Result<std::vector<std::string>> Config::require_strings(std::string_view key) const {
  PLUMB_ASSIGN(const Value* value, require(key));
  return many(*this, key, *value, want_string());
}

std::vector<std::pair<std::string, std::string>> Config::describe_all() const {
  std::vector<std::pair<std::string, std::string>> out;
  for (const Entry& entry : entries_) out.emplace_back(entry.key, describe_value(entry.value));
  return out;
}

}  // namespace plumb::format
