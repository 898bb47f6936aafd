// The key table of a gpt-oss GGUF file, and vocabulary keys of any GGUF file.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/dtype.h"
#include "format/gguf_writer.h"
#include "geometry.h"
#include "vocabulary.h"

namespace plumb::app {

// general.file_type as readers number it: what most of the tensors are. Only shown to people.
enum class GgufFileType : std::uint32_t { all_f32 = 0, mostly_mxfp4_moe = 38 };
// The number of a file whose matrices are mostly `type`.
std::uint32_t gguf_file_type(DType type);
inline constexpr std::uint32_t kGgufQuantizationVersion = 2;  // of the block formats; readers refuse quantized files without it

// Every key that the ggml-org gpt-oss files have and that their readers ask for. REQUIRES: geometry.alternates(), since the
// container has no key for another pattern.
void add_gpt_oss_keys(format::GgufKeys& keys, const Geometry& geometry, std::string_view name,
                      std::optional<std::uint32_t> file_type = std::nullopt);

// tokenizer.ggml.*.
void add_vocabulary_keys(format::GgufKeys& keys, const VocabularyData& vocabulary);

}  // namespace plumb::app
