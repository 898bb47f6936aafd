// A checkpoint on its way into GGUF: keys, tensors still to be written, and where each comes from.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "format/checkpoint.h"
#include "format/gguf_writer.h"
#include "tensor_job.h"

namespace plumb::app {

struct Origin {
  std::string from;       // the tensor's name in the source
  DType from_dtype = DType::f32;
  const char* action = ""; // "copied", "widened", "narrowed", "requantized", "renibbled", "deinterleaved", "quantized", "added"
};

class ErrorTally;

// Set by a fill that meets a number it cannot encode.
using Refusal = std::shared_ptr<std::atomic<bool>>;

struct Conversion {
  std::string family;
  format::GgufKeys keys;
  std::vector<TensorJob> jobs;
  std::vector<Origin> origins;    // one per job
  std::vector<Refusal> refusals;  // one per job; null where the bytes are moved unchanged
  std::vector<std::shared_ptr<ErrorTally>> errors;  // one per job; null where nothing was quantised
  std::vector<std::string> warnings;
  std::size_t tokens = 0;

  void add(TensorJob job, Origin origin, Refusal refusal = nullptr);
};

struct ConvertOptions {
  std::string name;               // general.name
  std::optional<DType> matrices;  // type of attention, embedding and head; absent: as stored
  std::optional<std::uint32_t> file_type;  // general.file_type; absent: what the family's files usually are
};

// gpt-oss in the Hugging Face layout. The checkpoint must outlive the result.
// Errors: what reading spec, weights and tokenizer finds; unsupported for what a gpt-oss GGUF file cannot say.
Result<Conversion> convert_gpt_oss(const format::Checkpoint& checkpoint, const ConvertOptions& options);

// A llama2.c model, legacy float32 layout, with its tokenizer file. The bytes must outlive the result.
// Errors: truncated, malformed, limit_exceeded, and those of text::tokenizer_from_llama2c.
Result<Conversion> convert_llama2c(std::span<const std::byte> model, const std::string& model_path,
                                   std::span<const std::byte> tokenizer, const std::string& tokenizer_path,
                                   const ConvertOptions& options);

// A GGUF file of any family that plumb opens, tensor for tensor and key for key (but for those that say how a file is split).
// Errors: what reading spec and weights finds.
Result<Conversion> convert_gguf(const format::Checkpoint& checkpoint, const ConvertOptions& options);

}  // namespace plumb::app
