#include "format/safetensors_writer.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>

#include "base/output_file.h"
#include "base/parse_limits.h"
#include "base/printable.h"

namespace plumb::format {
namespace {

using nlohmann::json;

std::string dump(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

}  // namespace

Result<TensorWriter> create_safetensors(const std::string& path, const std::map<std::string, std::string>& metadata,
                                        std::vector<TensorDecl> tensors) {
  PLUMB_TRY(check_declarations(tensors, ParseLimits{}.max_name_bytes, path));
  json header = json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const TensorDecl& tensor : tensors) {
    const std::string_view dtype = dtype_info(tensor.dtype).safetensors_name;
    if (dtype.empty()) {
      return fail(ErrorCode::unsupported, "safetensors has no such dtype", path, printable(tensor.name),
                  std::string(to_string(tensor.dtype)));
    }
    if (tensor.name == "__metadata__") return fail(ErrorCode::invalid_argument, "name is reserved", path, tensor.name);
    header[tensor.name] = {
        {"dtype", dtype}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + tensor.bytes()}}};
    offset += tensor.bytes();
  }
  std::string text = dump(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > 100'000'000) {
    return fail(ErrorCode::limit_exceeded, "header is larger than 100000000 bytes", path, "header",
                std::to_string(text.size()));
  }
  const std::uint64_t length = text.size();
  text.insert(0, reinterpret_cast<const char*>(&length), sizeof length);
  return TensorWriter::create(path, std::as_bytes(std::span(text)), std::move(tensors), 1);
}

Status write_safetensors_index(const std::string& path, const std::map<std::string, std::string>& shard_of,
                               std::uint64_t total_bytes) {
  const json index = {{"metadata", {{"total_size", total_bytes}}}, {"weight_map", shard_of}};
  const std::string text = index.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
  PLUMB_ASSIGN(OutputFile file, OutputFile::create(path));
  PLUMB_TRY(file.write(std::as_bytes(std::span(text))));
  return file.commit();
}

}  // namespace plumb::format
