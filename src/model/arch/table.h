// The architecture table: which families Plumb reads, and how.
//
// A family is one file arch/<family>.cpp and one line in table.cpp. It turns a checkpoint's configuration into a DecoderSpec
// and finds the tensors that the spec asks for; nothing above this folder knows tensor names.
#pragma once

#include <span>

#include "base/status.h"
#include "format/checkpoint.h"
#include "format/config.h"
#include "model/spec.h"
#include "model/weights.h"

namespace plumb::model {

struct Architecture {
  const char* family;       // DecoderSpec::family
  const char* hf_type;      // config.json "model_type"
  const char* gguf_name;    // GGUF "general.architecture"; nullptr: the family has no GGUF form
  // `config` is config.json or the GGUF keys. Errors name the key.
  Result<DecoderSpec> (*read_spec)(const format::Checkpoint& checkpoint, const format::Config& config);
  // Errors: missing_tensor, unexpected_tensor, shape_mismatch, unsupported (element type); each names the tensor.
  Result<DecoderWeights> (*read_weights)(const format::Checkpoint& checkpoint, const DecoderSpec& spec);
};

std::span<const Architecture* const> all_architectures();

// The configuration that belongs to a checkpoint: config.json beside safetensors, or the GGUF keys.
Result<format::Config> read_config(const format::Checkpoint& checkpoint);

// Reads the spec of whichever family the checkpoint names. Errors: unsupported naming the family; what the family's own
// reader finds. The spec is complete and consistent: sizes within limits, heads divisible, top_k within the experts.
Result<DecoderSpec> read_spec(const format::Checkpoint& checkpoint);

// Finds every tensor of the spec; the result borrows the checkpoint's mapping. Every tensor of the file must be used.
Result<DecoderWeights> read_weights(const format::Checkpoint& checkpoint, const DecoderSpec& spec);

// The rows of the table, one per file of this folder.
extern const Architecture kGptOss;
extern const Architecture kLlama;
extern const Architecture kPlumbHybrid;

}  // namespace plumb::model
