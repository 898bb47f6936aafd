// The key table of a gpt-oss GGUF file, and vocabulary keys of any GGUF file.
#pragma once

#include <cstdint>
#include <string_view>

#include "format/gguf_writer.h"
#include "geometry.h"
#include "vocabulary.h"

namespace plumb::app {

// general.file_type as readers number it: what most of the tensors are. Only shown to people.
enum class GgufFileType : std::uint32_t { all_f32 = 0, mostly_mxfp4_moe = 38 };

// Every key that the ggml-org gpt-oss files have and that their readers ask for. REQUIRES: geometry.alternates(), since the
// container has no key for another pattern.
void add_gpt_oss_keys(format::GgufKeys& keys, const Geometry& geometry, std::string_view name);

// tokenizer.ggml.*.
void add_vocabulary_keys(format::GgufKeys& keys, const VocabularyData& vocabulary);

}  // namespace plumb::app
