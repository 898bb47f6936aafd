#include "format/metadata.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "base/printable.h"

namespace plumb::format {
namespace {

struct TypeRow {
  std::string_view name;
  std::uint32_t bytes;
};
constexpr std::array<TypeRow, 13> kTypes = {{{"u8", 1},
                                             {"i8", 1},
                                             {"u16", 2},
                                             {"i16", 2},
                                             {"u32", 4},
                                             {"i32", 4},
                                             {"f32", 4},
                                             {"bool", 1},
                                             {"string", 0},
                                             {"array", 0},
                                             {"u64", 8},
                                             {"i64", 8},
                                             {"f64", 8}}};

template <class T>
T load(std::span<const std::byte> raw, std::uint64_t index) {
  T value;
  std::memcpy(&value, raw.data() + index * sizeof(T), sizeof(T));
  return value;
}

// Calls visit(element) for each element of a numeric array, in its stored type; false when the type is not numeric.
template <class Visit>
bool for_each_number(MetaType type, std::uint64_t count, std::span<const std::byte> raw, Visit visit) {
  const auto run = [&]<class T>(T) {
    for (std::uint64_t i = 0; i < count; ++i) visit(load<T>(raw, i));
    return true;
  };
  switch (type) {
    case MetaType::u8:
      return run(std::uint8_t{});
    case MetaType::i8:
      return run(std::int8_t{});
    case MetaType::u16:
      return run(std::uint16_t{});
    case MetaType::i16:
      return run(std::int16_t{});
    case MetaType::u32:
      return run(std::uint32_t{});
    case MetaType::i32:
      return run(std::int32_t{});
    case MetaType::u64:
      return run(std::uint64_t{});
    case MetaType::i64:
      return run(std::int64_t{});
    case MetaType::f32:
      return run(float{});
    case MetaType::f64:
      return run(double{});
    case MetaType::boolean:
    case MetaType::string:
    case MetaType::array:
      break;
  }
  return false;
}

Error wrong_element(std::string_view wanted, MetaType found) {
  return fail(ErrorCode::malformed, "array elements must be " + std::string(wanted), "", "",
              std::string(to_string(found)));
}

}  // namespace

std::string_view to_string(MetaType type) {
  const auto index = static_cast<std::size_t>(type);
  return index < kTypes.size() ? kTypes[index].name : "?";
}

std::uint32_t fixed_size(MetaType type) {
  const auto index = static_cast<std::size_t>(type);
  return index < kTypes.size() ? kTypes[index].bytes : 0;
}

Result<std::vector<std::string_view>> MetaArray::strings() const {
  if (element_ != MetaType::string) return wrong_element("strings", element_);
  std::vector<std::string_view> out;
  out.reserve(count_);
  std::size_t at = 0;
  for (std::uint64_t i = 0; i < count_; ++i) {
    std::uint64_t length = 0;
    if (raw_.size() - at < sizeof length)
      return fail(ErrorCode::malformed, "string array changed after the file was opened");
    std::memcpy(&length, raw_.data() + at, sizeof length);
    at += sizeof length;
    if (length > raw_.size() - at) return fail(ErrorCode::malformed, "string array changed after the file was opened");
    out.emplace_back(reinterpret_cast<const char*>(raw_.data() + at), length);
    at += length;
  }
  return out;
}

Result<std::vector<std::int64_t>> MetaArray::integers() const {
  if (element_ == MetaType::f32 || element_ == MetaType::f64) return wrong_element("integers", element_);
  std::vector<std::int64_t> out;
  if (fixed_size(element_) != 0) out.reserve(count_);
  bool fits = true;
  const bool numeric = for_each_number(element_, count_, raw_, [&](auto value) {
    if constexpr (std::is_integral_v<decltype(value)>) {
      fits = fits && std::in_range<std::int64_t>(value);
      out.push_back(static_cast<std::int64_t>(value));
    }
  });
  if (!numeric) return wrong_element("integers", element_);
  if (!fits) return fail(ErrorCode::malformed, "array element does not fit a signed 64-bit integer");
  return out;
}

Result<std::vector<double>> MetaArray::doubles() const {
  std::vector<double> out;
  if (fixed_size(element_) != 0) out.reserve(count_);
  if (!for_each_number(element_, count_, raw_, [&](auto value) { out.push_back(static_cast<double>(value)); })) {
    return wrong_element("numbers", element_);
  }
  return out;
}

Result<std::vector<bool>> MetaArray::booleans() const {
  if (element_ != MetaType::boolean) return wrong_element("booleans", element_);
  std::vector<bool> out(count_);
  for (std::uint64_t i = 0; i < count_; ++i) out[i] = raw_[i] != std::byte{0};
  return out;
}

std::string describe(const MetaValue& value) {
  struct Describe {
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(std::int64_t v) const { return std::to_string(v); }
    std::string operator()(std::uint64_t v) const { return std::to_string(v); }
    std::string operator()(double v) const {
      char text[32];
      std::snprintf(text, sizeof text, "%.9g", v);
      return text;
    }
    std::string operator()(const std::string& v) const { return '"' + printable(v, 80) + '"'; }
    std::string operator()(const MetaArray& v) const {
      return "[" + std::string(to_string(v.element())) + " x " + std::to_string(v.size()) + "]";
    }
  };
  return std::visit(Describe{}, value);
}

Result<Metadata> Metadata::from_entries(std::vector<MetaEntry> entries, std::string_view subject) {
  Metadata out;
  out.entries_ = std::move(entries);
  out.by_key_.resize(out.entries_.size());
  std::iota(out.by_key_.begin(), out.by_key_.end(), 0U);
  const auto key = [&](std::uint32_t i) -> const std::string& { return out.entries_[i].key; };
  std::sort(out.by_key_.begin(), out.by_key_.end(), [&](auto a, auto b) { return key(a) < key(b); });
  const auto twice =
      std::adjacent_find(out.by_key_.begin(), out.by_key_.end(), [&](auto a, auto b) { return key(a) == key(b); });
  if (twice != out.by_key_.end()) {
    return fail(ErrorCode::malformed, "metadata key appears twice", std::string(subject), printable(key(*twice)));
  }
  return out;
}

const MetaEntry* Metadata::find(std::string_view key) const {
  const auto at = std::lower_bound(by_key_.begin(), by_key_.end(), key,
                                   [&](std::uint32_t i, std::string_view k) { return entries_[i].key < k; });
  return at != by_key_.end() && entries_[*at].key == key ? &entries_[*at] : nullptr;
}

}  // namespace plumb::format
