#include "format/gguf_writer.h"

#include <algorithm>

#include "base/printable.h"
#include "format/gguf.h"

namespace plumb::format {

void GgufKeys::put_raw(std::span<const std::byte> bytes) {
  encoded_.insert(encoded_.end(), bytes.begin(), bytes.end());
}

void GgufKeys::put_text(std::string_view text) {
  put(static_cast<std::uint64_t>(text.size()));
  put_raw(std::as_bytes(std::span(text)));
}

void GgufKeys::begin(std::string_view key, MetaType type) {
  keys_.emplace_back(key);
  put_text(key);
  put(static_cast<std::uint32_t>(type));
}

void GgufKeys::add_string(std::string_view key, std::string_view value) {
  begin(key, MetaType::string);
  put_text(value);
}

void GgufKeys::add_bools(std::string_view key, const std::vector<bool>& values) {
  begin(key, MetaType::array);
  put(static_cast<std::uint32_t>(MetaType::boolean));
  put(static_cast<std::uint64_t>(values.size()));
  for (const bool value : values) put(static_cast<std::uint8_t>(value ? 1 : 0));
}

void GgufKeys::add_strings(std::string_view key, std::span<const std::string_view> values) {
  begin(key, MetaType::array);
  put(static_cast<std::uint32_t>(MetaType::string));
  put(static_cast<std::uint64_t>(values.size()));
  for (const std::string_view value : values) put_text(value);
}

void GgufKeys::add_entry(const MetaEntry& entry) {
  if (const auto* text = std::get_if<std::string>(&entry.value)) return add_string(entry.key, *text);
  if (const auto* array = std::get_if<MetaArray>(&entry.value)) {
    begin(entry.key, MetaType::array);
    put(static_cast<std::uint32_t>(array->element()));
    put(array->size());
    return put_raw(array->raw());
  }
  const auto number = [&]<class T>(T) {
    add(entry.key, std::visit([](const auto& value) -> T {
          if constexpr (std::is_arithmetic_v<std::decay_t<decltype(value)>>) return static_cast<T>(value);
          else return T{};
        }, entry.value));
  };
  switch (entry.type) {
    case MetaType::u8: return number(std::uint8_t{});
    case MetaType::i8: return number(std::int8_t{});
    case MetaType::u16: return number(std::uint16_t{});
    case MetaType::i16: return number(std::int16_t{});
    case MetaType::u32: return number(std::uint32_t{});
    case MetaType::i32: return number(std::int32_t{});
    case MetaType::u64: return number(std::uint64_t{});
    case MetaType::i64: return number(std::int64_t{});
    case MetaType::f32: return number(float{});
    case MetaType::f64: return number(double{});
    case MetaType::boolean: return number(bool{});
    case MetaType::string:
    case MetaType::array: return;  // above
  }
}

Result<TensorWriter> create_gguf(const std::string& path, const GgufKeys& keys, std::vector<TensorDecl> tensors) {
  PLUMB_TRY(check_declarations(tensors, kGgufMaxTensorName, path));
  std::vector<std::string_view> sorted(keys.keys().begin(), keys.keys().end());
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const bool twice = i > 0 && sorted[i] == sorted[i - 1];
    if (twice || sorted[i].empty() || !is_utf8(sorted[i]) || sorted[i] == "general.alignment") {
      return fail(ErrorCode::invalid_argument, twice ? "key is added twice" : "key cannot be written", path,
                  printable(sorted[i]));
    }
  }
  std::vector<std::byte> header;
  const auto put = [&header](auto value) {
    const auto raw = std::as_bytes(std::span(&value, 1));
    header.insert(header.end(), raw.begin(), raw.end());
  };
  put(kGgufMagic);
  put(std::uint32_t{3});
  put(static_cast<std::uint64_t>(tensors.size()));
  put(static_cast<std::uint64_t>(keys.keys().size()));
  header.insert(header.end(), keys.encoded().begin(), keys.encoded().end());
  std::uint64_t offset = 0;
  for (const TensorDecl& tensor : tensors) {
    const int id = dtype_info(tensor.dtype).ggml_id;
    if (id < 0) {
      return fail(ErrorCode::unsupported, "GGUF has no such tensor type", path, printable(tensor.name),
                  std::string(to_string(tensor.dtype)));
    }
    if (std::find(tensor.shape.begin(), tensor.shape.end(), 0U) != tensor.shape.end()) {
      return fail(ErrorCode::invalid_argument, "GGUF readers refuse a dimension of zero", path, printable(tensor.name));
    }
    put(static_cast<std::uint64_t>(tensor.name.size()));
    const auto name = std::as_bytes(std::span(tensor.name));
    header.insert(header.end(), name.begin(), name.end());
    put(static_cast<std::uint32_t>(tensor.shape.size()));
    for (auto dim = tensor.shape.rbegin(); dim != tensor.shape.rend(); ++dim) put(*dim);
    put(static_cast<std::uint32_t>(id));
    put(offset);
    offset += (tensor.bytes() + kGgufDefaultAlignment - 1) / kGgufDefaultAlignment * kGgufDefaultAlignment;
  }
  header.resize((header.size() + kGgufDefaultAlignment - 1) / kGgufDefaultAlignment * kGgufDefaultAlignment);
  return TensorWriter::create(path, header, std::move(tensors), kGgufDefaultAlignment);
}

}  // namespace plumb::format
