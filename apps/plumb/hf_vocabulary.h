// The vocabulary of a Hugging Face checkpoint as plain data.
#pragma once

#include <cstdint>

#include "format/checkpoint.h"
#include "plumb/status.h"
#include "vocabulary.h"

namespace plumb::app {

// tokenizer.json, with the special ids of config.json and generation_config.json. Ids that have no token, up to `size`, become
// unused ones. Errors: those of model::open_tokenizer; unsupported when the split expression has no name in GGUF;
// malformed when the vocabulary has more than `size` tokens.
Result<VocabularyData> read_hf_vocabulary(const format::Checkpoint& checkpoint, std::uint64_t size);

}  // namespace plumb::app
