// Writer of one safetensors file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "format/tensor_writer.h"

namespace plumb::format {

// Starts a safetensors file whose tensors stand in declared order; the header is padded with spaces to a multiple of 8.
// To keep every tensor aligned for its own element size, declare wider types before narrower ones, as the reference
// implementation does. `metadata` becomes "__metadata__" when it is not empty.
// Errors: invalid_argument, limit_exceeded (header above 100 MB), unsupported (a dtype without a safetensors name), io.
Result<TensorWriter> create_safetensors(const std::string& path, const std::map<std::string, std::string>& metadata,
                                        std::vector<TensorDecl> tensors);

// Writes model.safetensors.index.json for shards that are written apart: shard_of[tensor] = file name, total_bytes of
// all tensor data. Errors: io.
Status write_safetensors_index(const std::string& path, const std::map<std::string, std::string>& shard_of,
                               std::uint64_t total_bytes);

}  // namespace plumb::format
