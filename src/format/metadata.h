// Typed key/value metadata of a checkpoint: GGUF's key table, or the "__metadata__" strings of a safetensors header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"

namespace plumb::format {

// Value types, numbered as GGUF stores them (GGUF specification, gguf_metadata_value_type).
enum class MetaType : std::uint32_t { u8 = 0, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

// "u32", "string", ...; "?" for a number that is no type.
std::string_view to_string(MetaType type);

// Bytes of one value of a fixed-size type; 0 for string, array and unknown numbers.
std::uint32_t fixed_size(MetaType type);

// An array left where it is in the mapped file: a vocabulary of 200,000 strings costs nothing until it is asked for.
// Valid as long as the Checkpoint it came from. Thread rule: const methods from any thread.
class MetaArray {
 public:
  MetaArray() = default;
  // REQUIRES: raw holds count elements of a type other than array (strings as u64 length + bytes).
  MetaArray(MetaType element, std::uint64_t count, std::span<const std::byte> raw)
      : element_(element), count_(count), raw_(raw) {}

  MetaType element() const { return element_; }
  std::uint64_t size() const { return count_; }
  std::span<const std::byte> raw() const { return raw_; }  // as stored

  // All elements, converted. Each returns an error when the elements have another kind: strings() wants string;
  // integers() any integer type whose values fit int64; doubles() f32, f64 or any integer type; booleans() boolean.
  // strings() views point into the file. The file was checked when it was opened; strings() checks lengths again, since
  // a mapped file can be rewritten by others, and answers with malformed then.
  Result<std::vector<std::string_view>> strings() const;
  Result<std::vector<std::int64_t>> integers() const;
  Result<std::vector<double>> doubles() const;
  Result<std::vector<bool>> booleans() const;

 private:
  MetaType element_ = MetaType::u8;
  std::uint64_t count_ = 0;
  std::span<const std::byte> raw_;
};

// i8..i64 are held as int64, u8..u64 as uint64, f32 and f64 as double.
using MetaValue = std::variant<bool, std::int64_t, std::uint64_t, double, std::string, MetaArray>;

struct MetaEntry {
  std::string key;
  MetaType type = MetaType::string;  // as stored
  MetaValue value;
};

// One value for people: strings quoted and cut, arrays as "[u32 x 24]".
std::string describe(const MetaValue& value);

class Metadata {
 public:
  Metadata() = default;

  // Takes entries in file order. Returns the key that occurs twice, if one does (the entries are then unusable).
  static Result<Metadata> from_entries(std::vector<MetaEntry> entries, std::string_view subject);

  std::span<const MetaEntry> entries() const { return entries_; }  // file order
  const MetaEntry* find(std::string_view key) const;               // null when absent; O(log n)

  // The value when the key exists with that kind, else nullptr.
  template <class T>
  const T* get(std::string_view key) const {
    const MetaEntry* entry = find(key);
    return entry == nullptr ? nullptr : std::get_if<T>(&entry->value);
  }

 private:
  std::vector<MetaEntry> entries_;
  std::vector<std::uint32_t> by_key_;  // indices into entries_, sorted by key
};

}  // namespace plumb::format
