// GGUF to GGUF: keys and tensors as they are, for a quantiser to work on.
#include <cstring>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "conversion.h"
#include "gpt_oss_gguf.h"
#include "model/arch/table.h"

namespace plumb::app {
namespace {

// Keys that belong to the source's file and not to the model.
bool of_the_file(std::string_view key) {
  return key.starts_with("split.") || key == "general.alignment" || key == "general.file_type" || key == "general.quantization_version" ||
         key == "general.name";
}

}  // namespace

Result<Conversion> convert_gguf(const format::Checkpoint& checkpoint, const ConvertOptions& options) {
  PLUMB_ASSIGN(const model::DecoderSpec spec, model::read_spec(checkpoint));
  // Every tensor is there, in its shape, and no other.
  PLUMB_ASSIGN(const model::DecoderWeights weights, model::read_weights(checkpoint, spec));
  Conversion out;
  out.family = spec.family;
  out.tokens = static_cast<std::size_t>(spec.vocab);
  for (const format::MetaEntry& entry : checkpoint.metadata().entries()) {
    if (!of_the_file(entry.key)) out.keys.add_entry(entry);
  }
  const auto* name = checkpoint.metadata().get<std::string>("general.name");
  out.keys.add_string("general.name", options.name.empty() && name != nullptr ? *name : options.name);
  if (const auto* type = checkpoint.metadata().get<std::uint64_t>("general.file_type"); type != nullptr || options.file_type.has_value()) {
    out.keys.add("general.file_type", options.file_type.value_or(type == nullptr ? 0U : static_cast<std::uint32_t>(*type)));
  }
  out.keys.add("general.quantization_version", kGgufQuantizationVersion);
  for (const format::TensorView& tensor : checkpoint.tensors()) {
    const auto fill = [data = tensor.data](std::uint64_t offset, std::span<std::byte> bytes) {
      std::memcpy(bytes.data(), data.data() + offset, bytes.size());
    };
    out.add({tensor.name, tensor.dtype, tensor.shape, dtype_info(tensor.dtype).block_bytes, fill}, {tensor.name, tensor.dtype, "copied"});
  }
  return out;
}

}  // namespace plumb::app
