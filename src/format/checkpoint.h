// A model's tensors and metadata, whatever container they came in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/mapped_file.h"
#include "base/parse_limits.h"
#include "base/status.h"
#include "format/metadata.h"

namespace plumb::format {

enum class Container : std::uint8_t { safetensors, gguf };
std::string_view to_string(Container container);

// A stored tensor, still in the mapped file.
struct TensorView {
  std::string name;  // as the container spells it
  DType dtype = DType::f32;
  std::vector<std::uint64_t>
      shape;  // outermost first, innermost (contiguous) last; empty for a scalar. GGUF's ne reversed
  std::span<const std::byte> data;  // exactly tensor_bytes(dtype, shape); GGUF data is aligned to at least 8 bytes,
                                    // safetensors data need not be
  std::uint32_t file = 0;           // index into Checkpoint::files()
  std::uint64_t offset = 0;         // of data in that file

  std::uint64_t elements() const { return *element_count(shape); }  // cannot wrap: checked when the file was opened
};

// "[32, 2880, 2880]"
std::string shape_text(std::span<const std::uint64_t> shape);

struct CheckpointFile {
  std::string path;
  std::uint64_t bytes = 0;
};

// An opened checkpoint. Owns the mappings that every TensorView, MetaArray and string view from it points into.
// Thread rule: const methods from any thread.
class Checkpoint {
 public:
  // Opens and verifies the structure of a checkpoint: every tensor's extent lies inside its file and nothing overlaps.
  // Tensor data is not read. `path` is
  //   - a directory in the Hugging Face layout: model.safetensors, or model.safetensors.index.json with its shards,
  //     or else exactly one *.gguf (or the first part of a split one);
  //   - a .safetensors or .gguf file, told apart by content; an index file; the first part of a split GGUF.
  // Time and memory are linear in the headers' size, and that is bounded by the files' real size.
  // Errors: not_found, io, truncated, malformed, limit_exceeded, unsupported; missing_tensor and unexpected_tensor when
  // the index or the split count disagrees with the shards. Each names file, field and value.
  static Result<Checkpoint> open(const std::string& path, const ParseLimits& limits = {});

  Container container() const { return container_; }
  const std::string& path() const { return path_; }  // as given to open()
  const std::string& directory() const {
    return directory_;
  }  // where config.json and tokenizer.json of an HF checkpoint stand
  std::span<const CheckpointFile> files() const { return files_; }

  // File order, and inside a file by offset; stable for one set of files.
  std::span<const TensorView> tensors() const { return tensors_; }
  const TensorView* find(std::string_view name) const;  // null when absent; O(log n)
  // find(), or missing_tensor naming file and tensor.
  Result<const TensorView*> require(std::string_view name) const;

  std::uint64_t total_tensor_bytes() const { return total_bytes_; }
  const Metadata& metadata() const { return metadata_; }  // of the first file

  // Text that names this checkpoint in errors about it.
  const std::string& subject() const { return path_; }

  // Whether any page read so far was unreadable (MappedFile::check), or the files changed since (verify_unchanged).
  Status check() const;
  Status verify_unchanged() const;

  // Passed on to every file, or to the pages of one tensor.
  void advise(MappedFile::Advice advice) const;
  void advise(MappedFile::Advice advice, const TensorView& tensor) const;

 private:
  Checkpoint() = default;
  static Result<Checkpoint> open_gguf(MappedFile file, const ParseLimits& limits);
  static Result<Checkpoint> open_safetensors(MappedFile file, const ParseLimits& limits);
  static Result<Checkpoint> open_index(MappedFile file, const ParseLimits& limits);
  static Result<Checkpoint> open_file(const std::string& path, const ParseLimits& limits);
  void add(MappedFile file, std::vector<TensorView> tensors);
  Status finish(std::string_view subject);

  Container container_ = Container::safetensors;
  std::string path_;
  std::string directory_;
  std::vector<MappedFile> maps_;
  std::vector<CheckpointFile> files_;
  std::vector<TensorView> tensors_;
  std::vector<std::uint32_t> by_name_;  // indices into tensors_, sorted by name
  std::uint64_t total_bytes_ = 0;
  Metadata metadata_;
};

// Rejects E8M0 NaN scales (byte 0xFF): in the blocks of a mxfp4 tensor, or in every byte of a separate u8 or f8_e8m0
// scale tensor; and UE4M3 scales of an nvfp4 tensor that are NaN or negative. Reads the whole tensor. Other dtypes: invalid_argument. Error: malformed, value = index of the block.
Status reject_nan_scales(const TensorView& tensor, std::string_view subject);

}  // namespace plumb::format
