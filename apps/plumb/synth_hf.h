// The files of a synthetic checkpoint in the Hugging Face layout, besides the tensors.
#pragma once

#include <string>

#include "geometry.h"
#include "plumb/status.h"
#include "vocabulary.h"

namespace plumb::app {

// config.json, generation_config.json, tokenizer.json and tokenizer_config.json in `folder`, spelled as openai/gpt-oss
// spells them; config.json of a hybrid geometry as src/model/arch/plumb_hybrid.cpp reads it. Errors: io.
Status write_hf_files(const std::string& folder, const Geometry& geometry, const VocabularyData& vocabulary, DType dtype);

}  // namespace plumb::app
