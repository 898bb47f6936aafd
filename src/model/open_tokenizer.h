// The tokenizer that belongs to a checkpoint, from whichever files carry it.
#pragma once

#include "base/parse_limits.h"
#include "base/status.h"
#include "format/checkpoint.h"
#include "text/tokenizer.h"

namespace plumb::model {

// GGUF: the keys under tokenizer.ggml. Hugging Face layout: tokenizer.json beside the tensors; the ids that begin and end a
// text come from generation_config.json, or else config.json, and tokenizer_config.json may say that every text begins
// with the first one (add_bos_token).
// Errors: not_found (no vocabulary), those of text::tokenizer_from_vocab, text::load_tokenizer_json and format::Config.
Result<text::Tokenizer> open_tokenizer(const format::Checkpoint& checkpoint, const ParseLimits& limits = {});

}  // namespace plumb::model
