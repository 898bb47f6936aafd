// Reader of one safetensors file: u64 header length, a JSON header, then the tensors' bytes without a gap.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mapped_file.h"
#include "base/parse_limits.h"
#include "base/status.h"
#include "format/checkpoint.h"

namespace plumb::format {

struct FileContents {
  std::vector<TensorView> tensors;  // views into the file, ordered by offset
  Metadata metadata;
};

// Verifies what the reference implementation verifies: header length, first byte '{', UTF-8, known dtypes, extents
// equal to shape x dtype, in order, without overlap or hole, ending where the file ends. Stricter: duplicate or unknown
// keys, and ranks above limits.max_dims. Header limit: the reference's 100 MB, or limits.max_header_bytes if that is
// lower. Errors: truncated, malformed, limit_exceeded, unsupported (dtype).
Result<FileContents> read_safetensors(const MappedFile& file, const ParseLimits& limits);

// One line of model.safetensors.index.json's weight_map.
struct IndexEntry {
  std::string tensor;
  std::string shard;  // a plain file name beside the index
};

// Reads the weight_map. A shard name with a path separator, "..", or an empty one is malformed: an index must not
// reach outside its folder.
Result<std::vector<IndexEntry>> read_safetensors_index(std::string_view text, std::string_view subject,
                                                       const ParseLimits& limits);

}  // namespace plumb::format
