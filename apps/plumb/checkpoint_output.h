// Writes tensor jobs into one GGUF file or into the shards of a Hugging Face folder.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "console.h"
#include "format/gguf_writer.h"
#include "plumb/status.h"
#include "tensor_job.h"

namespace plumb::app {

struct WriteOptions {
  int threads = 1;
  bool quiet = false;
};

struct Written {
  std::vector<std::string> files;
  std::uint64_t bytes = 0;    // of tensors
  std::string digest;         // XXH3-128 of all tensor bytes in order, hexadecimal
  double seconds = 0;
};

// `verify` is asked after the last byte and before the file appears.
// Errors: those of the writers and of `verify`; cancelled on Ctrl-C. Nothing half-written stays behind.
Result<Written> write_gguf(const std::string& path, const format::GgufKeys& keys, std::span<const TensorJob> jobs,
                           const WriteOptions& options, const std::function<Status()>& verify = {});

// model.safetensors, or shards of at most `shard_bytes` (a larger tensor stands alone) with their index. The folder is made.
Result<Written> write_safetensors(const std::string& folder, std::vector<TensorJob> jobs, std::uint64_t shard_bytes,
                                  const WriteOptions& options);

}  // namespace plumb::app
