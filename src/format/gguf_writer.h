// Writer of GGUF version 3, little-endian.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/status.h"
#include "format/metadata.h"
#include "format/tensor_writer.h"

namespace plumb::format {

// The key table, encoded as it is filled. Keys are written in the order in which they were added.
class GgufKeys {
 public:
  // One value of the type that T stands for: bool, (u)int8..64, float, double.
  template <class T>
  void add(std::string_view key, T value) {
    begin(key, type_of<T>());
    put(value);
  }
  void add_string(std::string_view key, std::string_view value);

  // An array of a fixed-size type; bool arrays are given as std::uint8_t values through add_bools.
  template <class T>
  void add_array(std::string_view key, std::span<const T> values) {
    begin(key, MetaType::array);
    put(static_cast<std::uint32_t>(type_of<T>()));
    put(static_cast<std::uint64_t>(values.size()));
    put_raw(std::as_bytes(values));
  }
  void add_bools(std::string_view key, const std::vector<bool>& values);
  void add_strings(std::string_view key, std::span<const std::string_view> values);

  // An entry of another file, bit for bit.
  void add_entry(const MetaEntry& entry);

  std::span<const std::string> keys() const { return keys_; }
  std::span<const std::byte> encoded() const { return encoded_; }

 private:
  template <class T>
  static constexpr MetaType type_of() {
    if constexpr (std::is_same_v<T, bool>)
      return MetaType::boolean;
    else if constexpr (std::is_same_v<T, float>)
      return MetaType::f32;
    else if constexpr (std::is_same_v<T, double>)
      return MetaType::f64;
    else {
      static_assert(std::is_integral_v<T>);
      constexpr MetaType kSigned[] = {MetaType::i8, MetaType::i16, MetaType::i32, MetaType::i64};
      constexpr MetaType kUnsigned[] = {MetaType::u8, MetaType::u16, MetaType::u32, MetaType::u64};
      constexpr int index = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
      return std::is_signed_v<T> ? kSigned[index] : kUnsigned[index];
    }
  }
  template <class T>
  void put(T value) {
    put_raw(std::as_bytes(std::span(&value, 1)));
  }
  void put_raw(std::span<const std::byte> bytes);
  void put_text(std::string_view text);
  void begin(std::string_view key, MetaType type);

  std::vector<std::string> keys_;
  std::vector<std::byte> encoded_;
};

// Starts a GGUF file; shapes are given outermost first and stored reversed. general.alignment is 32 and is not written,
// being the default; adding that key is an error, as is a duplicate key.
// Errors: invalid_argument, limit_exceeded, unsupported (a dtype that GGUF has no number for), io.
Result<TensorWriter> create_gguf(const std::string& path, const GgufKeys& keys, std::vector<TensorDecl> tensors);

}  // namespace plumb::format
