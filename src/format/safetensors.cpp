#include "format/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/printable.h"

namespace plumb::format {
namespace {

using nlohmann::json;

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kReferenceHeaderLimit = 100'000'000;  // what the reference implementation accepts

struct Reader {
  const MappedFile& file;
  const ParseLimits& limits;

  Error error(ErrorCode code, std::string message, std::string_view field, std::string value = {}) const {
    return fail(code, std::move(message), file.path(), printable(field), std::move(value));
  }

  std::string found(const json& value) const {
    return printable(value.dump(-1, ' ', true, json::error_handler_t::replace));
  }

  Result<std::vector<MetaEntry>> metadata(const json& value) const {
    if (!value.is_object())
      return error(ErrorCode::malformed, "must be an object of strings", "__metadata__", found(value));
    std::vector<MetaEntry> entries;
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) return error(ErrorCode::malformed, "must be a string", "__metadata__." + key, found(text));
      entries.push_back({key, MetaType::string, text.get<std::string>()});
    }
    return entries;
  }

  Result<std::uint64_t> offset(const json& value, const std::string& name) const {
    if (!value.is_number_unsigned()) {
      return error(ErrorCode::malformed, "data_offsets must be two unsigned integers", name, found(value));
    }
    return value.get<std::uint64_t>();
  }

  // `data` is everything after the header.
  Result<TensorView> tensor(const std::string& name, const json& info, std::span<const std::byte> data) const {
    if (name.empty() || name.size() > limits.max_name_bytes) {
      return error(name.empty() ? ErrorCode::malformed : ErrorCode::limit_exceeded,
                   "tensor name length is outside 1.." + std::to_string(limits.max_name_bytes), name,
                   std::to_string(name.size()));
    }
    if (!info.is_object()) return error(ErrorCode::malformed, "must be an object", name, found(info));
    for (const auto& [key, value] : info.items()) {
      if (key != "dtype" && key != "shape" && key != "data_offsets") {
        return error(ErrorCode::malformed, "unknown key in a tensor's entry", name + "." + key);
      }
    }
    for (const char* key : {"dtype", "shape", "data_offsets"}) {
      if (!info.contains(key)) return error(ErrorCode::malformed, "required key is missing", name + "." + key);
    }
    TensorView view;
    view.name = name;
    const json& dtype = info["dtype"];
    if (!dtype.is_string()) return error(ErrorCode::malformed, "dtype must be a string", name, found(dtype));
    const auto type = dtype_from_safetensors(dtype.get_ref<const std::string&>());
    if (!type) return error(ErrorCode::unsupported, "unknown dtype", name, found(dtype));
    view.dtype = *type;

    const json& shape = info["shape"];
    if (!shape.is_array()) return error(ErrorCode::malformed, "shape must be an array", name, found(shape));
    if (shape.size() > limits.max_dims) {
      return error(ErrorCode::limit_exceeded, "shape has more than " + std::to_string(limits.max_dims) + " dimensions",
                   name, std::to_string(shape.size()));
    }
    for (const json& dim : shape) {
      if (!dim.is_number_unsigned())
        return error(ErrorCode::malformed, "shape must hold unsigned integers", name, found(dim));
      view.shape.push_back(dim.get<std::uint64_t>());
    }
    const auto elements = element_count(view.shape);
    if (!elements || *elements > limits.max_elements) {
      return error(ErrorCode::limit_exceeded,
                   "shape has more than " + std::to_string(limits.max_elements) + " elements", name,
                   shape_text(view.shape));
    }
    const auto size = tensor_bytes(view.dtype, view.shape);
    if (!size) {
      return error(ErrorCode::malformed,
                   "innermost dimension is not a whole number of bytes of " + std::string(to_string(view.dtype)), name,
                   shape_text(view.shape));
    }

    const json& offsets = info["data_offsets"];
    if (!offsets.is_array() || offsets.size() != 2) {
      return error(ErrorCode::malformed, "data_offsets must be two unsigned integers", name, found(offsets));
    }
    PLUMB_ASSIGN(const std::uint64_t begin, offset(offsets[0], name));
    PLUMB_ASSIGN(const std::uint64_t end, offset(offsets[1], name));
    if (begin > end) return error(ErrorCode::malformed, "data_offsets end before they begin", name, found(offsets));
    if (end - begin != *size) {
      return error(ErrorCode::malformed,
                   "shape " + shape_text(view.shape) + " of " + std::string(to_string(view.dtype)) + " takes " +
                       std::to_string(*size) + " bytes, data_offsets give another number",
                   name, std::to_string(end - begin));
    }
    if (end > data.size()) {
      return error(ErrorCode::truncated,
                   "tensor ends past the " + std::to_string(data.size()) + " data bytes of the file", name,
                   std::to_string(end));
    }
    view.data = data.subspan(begin, *size);
    view.offset = begin;  // relative to the data until the layout has been verified
    return view;
  }

  // Exact coverage: sorted by offset, each tensor begins where the one before it ended, and the last ends with the
  // file.
  Status verify_layout(std::vector<TensorView>& tensors, std::uint64_t data_size) const {
    std::sort(tensors.begin(), tensors.end(), [](const TensorView& a, const TensorView& b) {
      return a.offset != b.offset             ? a.offset < b.offset
             : a.data.size() != b.data.size() ? a.data.size() < b.data.size()
                                              : a.name < b.name;
    });
    std::uint64_t expected = 0;
    for (const TensorView& tensor : tensors) {
      if (tensor.offset != expected) {
        return error(ErrorCode::malformed,
                     tensor.offset < expected
                         ? "tensor overlaps the one before it; it must begin at " + std::to_string(expected)
                         : "hole before the tensor; it must begin at " + std::to_string(expected),
                     tensor.name, std::to_string(tensor.offset));
      }
      expected = tensor.offset + tensor.data.size();
    }
    if (expected != data_size) {
      return error(ErrorCode::malformed,
                   "tensors cover " + std::to_string(expected) + " data bytes, the file has another number", "",
                   std::to_string(data_size));
    }
    return {};
  }
};

}  // namespace

Result<FileContents> read_safetensors(const MappedFile& file, const ParseLimits& limits) {
  const Reader reader{file, limits};
  const auto bytes = file.bytes();
  if (bytes.size() < kLengthBytes) {
    return reader.error(ErrorCode::truncated, "a safetensors file begins with an 8-byte header length", "header length",
                        std::to_string(bytes.size()) + " bytes");
  }
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  const std::uint64_t limit = std::min(limits.max_header_bytes, kReferenceHeaderLimit);
  if (length > bytes.size() - kLengthBytes) {
    return reader.error(ErrorCode::truncated, "header ends past the end of the file", "header length",
                        std::to_string(length));
  }
  if (length > limit) {
    return reader.error(ErrorCode::limit_exceeded, "header is larger than " + std::to_string(limit) + " bytes",
                        "header length", std::to_string(length));
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
  if (text.empty() || text.front() != '{') {
    return reader.error(ErrorCode::malformed, "header must begin with '{'", "header", printable(text.substr(0, 8)));
  }
  PLUMB_ASSIGN(const json header, parse_json(text, file.path(), limits));
  const auto data = bytes.subspan(kLengthBytes + length);
  if (header.size() > std::uint64_t{limits.max_tensors} + 1) {
    return reader.error(ErrorCode::limit_exceeded, "more than " + std::to_string(limits.max_tensors) + " tensors",
                        "header", std::to_string(header.size()));
  }

  FileContents contents;
  std::vector<MetaEntry> entries;
  for (const auto& [name, info] : header.items()) {
    if (name == "__metadata__") {
      PLUMB_ASSIGN(entries, reader.metadata(info));
      continue;
    }
    PLUMB_ASSIGN(TensorView view, reader.tensor(name, info, data));
    contents.tensors.push_back(std::move(view));
  }
  PLUMB_TRY(reader.verify_layout(contents.tensors, data.size()));
  for (TensorView& tensor : contents.tensors) tensor.offset += kLengthBytes + length;
  PLUMB_ASSIGN(contents.metadata, Metadata::from_entries(std::move(entries), file.path()));
  return contents;
}

Result<std::vector<IndexEntry>> read_safetensors_index(std::string_view text, std::string_view subject,
                                                       const ParseLimits& limits) {
  PLUMB_ASSIGN(const json index, parse_json(text, subject, limits));
  const auto error = [&](ErrorCode code, std::string message, std::string_view field, std::string_view value) {
    return fail(code, std::move(message), std::string(subject), printable(field), printable(value));
  };
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    return error(ErrorCode::malformed, "index must hold an object named weight_map", "weight_map", "");
  }
  const json& map = index["weight_map"];
  if (map.size() > limits.max_tensors) {
    return error(ErrorCode::limit_exceeded, "more than " + std::to_string(limits.max_tensors) + " tensors",
                 "weight_map", std::to_string(map.size()));
  }
  std::vector<IndexEntry> entries;
  for (const auto& [tensor, shard] : map.items()) {
    if (!shard.is_string())
      return error(ErrorCode::malformed, "shard must be a file name", "weight_map." + tensor, shard.type_name());
    const auto& name = shard.get_ref<const std::string&>();
    // A plain name: nothing that could climb out of the folder, on any system that might have written or read it.
    if (name.empty() || name == "." || name == ".." || name.size() > 255 ||
        name.find_first_of(std::string_view("/\\\0:", 4)) != std::string::npos) {
      return error(ErrorCode::malformed, "shard must be a plain file name in the index's own folder",
                   "weight_map." + tensor, name);
    }
    entries.push_back({tensor, name});
  }
  return entries;
}

}  // namespace plumb::format
