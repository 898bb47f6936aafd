#include "format/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/printable.h"

namespace plumb::format {
namespace {

static_assert(std::endian::native == std::endian::little, "values are read as they lie in the file");

constexpr std::uint32_t kMaxAlignment = 1U << 20;      // far above any page size in use; keeps padding sums small
constexpr std::uint64_t kMinKeyBytes = 8 + 1 + 4 + 1;  // name length, one name byte, type, a one-byte value
constexpr std::uint64_t kMinTensorBytes = 8 + 1 + 4 + 4 + 8;  // name length, one name byte, no dimension, type, offset

// Reads forward through the file; every read is checked against what is left.
class Cursor {
 public:
  Cursor(const MappedFile& file, const ParseLimits& limits) : file_(file), limits_(limits), bytes_(file.bytes()) {}

  std::uint64_t offset() const { return at_; }
  std::uint64_t left() const { return bytes_.size() - at_; }

  // What errors from here on are about.
  void set_field(std::string field) { field_ = std::move(field); }

  Error error(ErrorCode code, std::string message, std::string value = {}) const {
    return fail(code, std::move(message), file_.path(), field_, std::move(value));
  }

  template <class T>
  Result<T> read() {
    PLUMB_ASSIGN(const auto raw, take(sizeof(T)));
    T value;
    std::memcpy(&value, raw.data(), sizeof(T));
    return value;
  }

  Result<std::span<const std::byte>> take(std::uint64_t count) {
    if (count > left()) {
      return error(
          ErrorCode::truncated,
          "file ends before it: " + std::to_string(left()) + " bytes are left at offset " + std::to_string(at_),
          std::to_string(count) + " bytes");
    }
    const auto raw = bytes_.subspan(at_, count);
    at_ += count;
    return raw;
  }

  Result<std::string_view> string(std::uint64_t max_bytes) {
    PLUMB_ASSIGN(const auto length, read<std::uint64_t>());
    if (length > left()) {
      return error(ErrorCode::truncated, "string runs past the end of the file", std::to_string(length) + " bytes");
    }
    if (length > max_bytes) {
      return error(ErrorCode::limit_exceeded, "string is longer than " + std::to_string(max_bytes) + " bytes",
                   std::to_string(length));
    }
    PLUMB_ASSIGN(const auto raw, take(length));
    return std::string_view(reinterpret_cast<const char*>(raw.data()), raw.size());
  }

  // A key or tensor name: not empty, valid UTF-8, so that it can be printed and compared.
  Result<std::string_view> name(std::uint64_t max_bytes) {
    PLUMB_ASSIGN(const auto text, string(max_bytes));
    if (text.empty()) return error(ErrorCode::malformed, "name is empty");
    if (!is_utf8(text)) return error(ErrorCode::malformed, "name is not valid UTF-8", printable(text));
    return text;
  }

  Result<MetaEntry> entry(std::uint64_t index);
  Result<TensorView> tensor_info(std::uint64_t index);

  // A declared count against the least that so many items take in the file.
  Status count_fits(std::uint64_t count, std::uint64_t least_bytes, std::uint64_t limit) const {
    const auto needed = checked_mul(count, least_bytes);
    if (!needed || *needed > left()) {
      return error(ErrorCode::truncated, "more entries are declared than the file has room for", std::to_string(count));
    }
    if (count > limit)
      return error(ErrorCode::limit_exceeded, "more entries than the limit of " + std::to_string(limit),
                   std::to_string(count));
    return {};
  }

 private:
  Result<MetaValue> scalar(MetaType type);
  Result<MetaArray> array();

  template <class Stored, class Held>
  Result<MetaValue> number() {
    PLUMB_ASSIGN(const Stored value, read<Stored>());
    return MetaValue(static_cast<Held>(value));
  }

  const MappedFile& file_;
  const ParseLimits& limits_;
  std::span<const std::byte> bytes_;
  std::uint64_t at_ = 0;
  std::string field_;
};

Result<MetaValue> Cursor::scalar(MetaType type) {
  switch (type) {
    case MetaType::u8:
      return number<std::uint8_t, std::uint64_t>();
    case MetaType::u16:
      return number<std::uint16_t, std::uint64_t>();
    case MetaType::u32:
      return number<std::uint32_t, std::uint64_t>();
    case MetaType::u64:
      return number<std::uint64_t, std::uint64_t>();
    case MetaType::i8:
      return number<std::int8_t, std::int64_t>();
    case MetaType::i16:
      return number<std::int16_t, std::int64_t>();
    case MetaType::i32:
      return number<std::int32_t, std::int64_t>();
    case MetaType::i64:
      return number<std::int64_t, std::int64_t>();
    case MetaType::f32:
      return number<float, double>();
    case MetaType::f64:
      return number<double, double>();
    case MetaType::boolean: {
      PLUMB_ASSIGN(const auto value, read<std::uint8_t>());
      if (value > 1) return error(ErrorCode::malformed, "bool must be 0 or 1", std::to_string(value));
      return MetaValue(value == 1);
    }
    case MetaType::string: {
      PLUMB_ASSIGN(const auto text, string(limits_.max_string_bytes));
      return MetaValue(std::string(text));
    }
    case MetaType::array: {
      PLUMB_ASSIGN(MetaArray value, array());
      return MetaValue(value);
    }
  }
  return error(ErrorCode::unsupported, "unknown metadata value type", std::to_string(static_cast<std::uint32_t>(type)));
}

Result<MetaArray> Cursor::array() {
  PLUMB_ASSIGN(const auto raw_type, read<std::uint32_t>());
  const auto type = static_cast<MetaType>(raw_type);
  if (type == MetaType::array) return error(ErrorCode::unsupported, "arrays of arrays are not supported");
  const std::uint32_t each = fixed_size(type);
  if (each == 0 && type != MetaType::string) {
    return error(ErrorCode::unsupported, "unknown array element type", std::to_string(raw_type));
  }
  PLUMB_ASSIGN(const auto count, read<std::uint64_t>());
  PLUMB_TRY(count_fits(count, type == MetaType::string ? 8 : each, limits_.max_array));
  const std::uint64_t start = at_;
  if (type == MetaType::string) {
    for (std::uint64_t i = 0; i < count; ++i) PLUMB_TRY(string(limits_.max_string_bytes));
  } else {
    PLUMB_ASSIGN(const auto raw, take(count * each));
    if (type == MetaType::boolean &&
        std::any_of(raw.begin(), raw.end(), [](std::byte b) { return b > std::byte{1}; })) {
      return error(ErrorCode::malformed, "bool must be 0 or 1");
    }
  }
  return MetaArray(type, count, bytes_.subspan(start, at_ - start));
}

Result<MetaEntry> Cursor::entry(std::uint64_t index) {
  set_field("key " + std::to_string(index));
  PLUMB_ASSIGN(const auto key, name(limits_.max_name_bytes));
  set_field(printable(key));
  PLUMB_ASSIGN(const auto type, read<std::uint32_t>());
  PLUMB_ASSIGN(MetaValue value, scalar(static_cast<MetaType>(type)));
  return MetaEntry{std::string(key), static_cast<MetaType>(type), std::move(value)};
}

Result<TensorView> Cursor::tensor_info(std::uint64_t index) {
  TensorView view;
  set_field("tensor " + std::to_string(index));
  PLUMB_ASSIGN(const auto tensor_name, name(std::min(limits_.max_name_bytes, kGgufMaxTensorName)));
  view.name = tensor_name;
  set_field(printable(tensor_name));
  PLUMB_ASSIGN(const auto dims, read<std::uint32_t>());
  if (dims > limits_.max_dims) {
    return error(ErrorCode::limit_exceeded, "more than " + std::to_string(limits_.max_dims) + " dimensions",
                 std::to_string(dims));
  }
  view.shape.resize(dims);
  for (std::uint32_t d = 0; d < dims; ++d) {
    PLUMB_ASSIGN(view.shape[dims - 1 - d], read<std::uint64_t>());
    if (view.shape[dims - 1 - d] == 0)
      return error(ErrorCode::malformed, "dimension " + std::to_string(d) + " is zero");
  }
  PLUMB_ASSIGN(const auto type, read<std::uint32_t>());
  PLUMB_ASSIGN(view.offset, read<std::uint64_t>());
  const auto dtype = dtype_from_ggml(type);
  if (!dtype) return error(ErrorCode::unsupported, "unknown or retired tensor type", std::to_string(type));
  view.dtype = *dtype;
  const auto elements = element_count(view.shape);
  if (!elements || *elements > limits_.max_elements) {
    return error(ErrorCode::limit_exceeded, "shape has more than " + std::to_string(limits_.max_elements) + " elements",
                 shape_text(view.shape));
  }
  if (!tensor_bytes(view.dtype, view.shape)) {
    return error(ErrorCode::malformed,
                 "innermost dimension is not a multiple of " + std::to_string(dtype_info(view.dtype).block_elements) +
                     ", the block of " + std::string(to_string(view.dtype)),
                 shape_text(view.shape));
  }
  return view;
}

// The header's fixed part, up to the counts.
Status read_version(Cursor& cursor) {
  cursor.set_field("magic");
  PLUMB_ASSIGN(const auto magic, cursor.read<std::uint32_t>());
  if (magic == __builtin_bswap32(kGgufMagic))
    return cursor.error(ErrorCode::unsupported, "big-endian GGUF is not supported");
  if (magic != kGgufMagic) {
    return cursor.error(ErrorCode::malformed, "is not \"GGUF\"",
                        printable({reinterpret_cast<const char*>(&magic), sizeof magic}));
  }
  cursor.set_field("version");
  PLUMB_ASSIGN(const auto version, cursor.read<std::uint32_t>());
  if ((version & 0xFFFFU) == 0 && version != 0) {
    return cursor.error(ErrorCode::unsupported, "big-endian GGUF is not supported",
                        std::to_string(__builtin_bswap32(version)) + " byte-swapped");
  }
  if (version < 2 || version > 3) {
    return cursor.error(ErrorCode::unsupported, "only GGUF versions 2 and 3 are supported", std::to_string(version));
  }
  return {};
}

Result<std::uint32_t> read_alignment(const Metadata& metadata, Cursor& cursor) {
  const MetaEntry* entry = metadata.find("general.alignment");
  if (entry == nullptr) return kGgufDefaultAlignment;
  cursor.set_field(entry->key);
  if (entry->type != MetaType::u32)
    return cursor.error(ErrorCode::malformed, "must be a u32", std::string(to_string(entry->type)));
  const std::uint64_t value = std::get<std::uint64_t>(entry->value);
  // The specification asks for a multiple of 8, so that plain elements can be read in place.
  if (!std::has_single_bit(value) || value < 8) {
    return cursor.error(ErrorCode::malformed, "must be a power of two and a multiple of 8", std::to_string(value));
  }
  if (value > kMaxAlignment)
    return cursor.error(ErrorCode::limit_exceeded, "is above " + std::to_string(kMaxAlignment), std::to_string(value));
  return static_cast<std::uint32_t>(value);
}

// Gives each tensor its bytes; verifies that the offsets are the running sum of padded sizes and stay inside the file.
Status place(std::vector<TensorView>& tensors, const MappedFile& file, std::uint64_t header_end,
             std::uint64_t alignment, Cursor& cursor) {
  const auto bytes = file.bytes();
  const std::uint64_t data_start =
      (header_end + alignment - 1) / alignment * alignment;  // header_end <= file size <= 2^42
  std::uint64_t expected =
      0;  // at most the file size plus one padding: each tensor is checked before the next is added
  for (TensorView& tensor : tensors) {
    cursor.set_field(printable(tensor.name));
    const std::uint64_t size = *tensor_bytes(tensor.dtype, tensor.shape);
    if (tensor.offset != expected) {
      return cursor.error(ErrorCode::malformed,
                          "offset must be " + std::to_string(expected) + ", where the padded tensors before it end",
                          std::to_string(tensor.offset));
    }
    const auto begin = checked_add(data_start, expected);
    const auto end = begin ? checked_add(*begin, size) : std::nullopt;
    if (!end || *end > bytes.size()) {
      return cursor.error(ErrorCode::truncated,
                          "tensor data ends past the end of the file: " + std::to_string(size) + " bytes from " +
                              std::to_string(data_start + expected) + " do not fit in " + std::to_string(bytes.size()),
                          shape_text(tensor.shape));
    }
    tensor.data = bytes.subspan(*begin, size);
    tensor.offset = *begin;
    expected += (size + alignment - 1) / alignment * alignment;
  }
  return {};
}

}  // namespace

Result<FileContents> read_gguf(const MappedFile& file, const ParseLimits& limits) {
  Cursor cursor(file, limits);
  PLUMB_TRY(read_version(cursor));
  cursor.set_field("tensor_count");
  PLUMB_ASSIGN(const auto tensor_count, cursor.read<std::uint64_t>());
  cursor.set_field("metadata_kv_count");
  PLUMB_ASSIGN(const auto key_count, cursor.read<std::uint64_t>());
  PLUMB_TRY(cursor.count_fits(key_count, kMinKeyBytes, limits.max_tensors));
  cursor.set_field("tensor_count");
  PLUMB_TRY(cursor.count_fits(tensor_count, kMinTensorBytes, limits.max_tensors));

  // No reserve by the declared counts: they were bounded by the file's size, but entries in memory are larger than in
  // it.
  std::vector<MetaEntry> entries;
  for (std::uint64_t i = 0; i < key_count; ++i) {
    PLUMB_ASSIGN(MetaEntry entry, cursor.entry(i));
    entries.push_back(std::move(entry));
  }
  FileContents contents;
  PLUMB_ASSIGN(contents.metadata, Metadata::from_entries(std::move(entries), file.path()));
  PLUMB_ASSIGN(const auto alignment, read_alignment(contents.metadata, cursor));
  for (std::uint64_t i = 0; i < tensor_count; ++i) {
    PLUMB_ASSIGN(TensorView view, cursor.tensor_info(i));
    contents.tensors.push_back(std::move(view));
  }
  PLUMB_TRY(place(contents.tensors, file, cursor.offset(), alignment, cursor));
  return contents;
}

}  // namespace plumb::format
