// Streaming writer of checkpoints: all tensors are declared first, then their bytes follow in that order. Memory does
// not grow with the file, and the file appears under its name only when it is complete (base/output_file.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/output_file.h"
#include "base/status.h"

namespace plumb::format {

struct TensorDecl {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::uint64_t> shape;  // outermost first

  std::uint64_t bytes() const { return *tensor_bytes(dtype, shape); }  // REQUIRES: accepted by a writer's create
};

// Made by create_gguf (gguf_writer.h) or create_safetensors (safetensors_writer.h).
class TensorWriter {
 public:
  // `alignment`: every tensor begins at a multiple of it, counted from the end of `header`; the gaps are zeros.
  // REQUIRES: tensors checked by check_declarations; header.size() % alignment == 0.
  static Result<TensorWriter> create(const std::string& path, std::span<const std::byte> header,
                                     std::vector<TensorDecl> tensors, std::uint64_t alignment);

  // Bytes of the tensors in declared order, in pieces of any size; a piece may not cross from one tensor into the next.
  // Errors: io; invalid_argument when more bytes come than the tensor has (names it).
  Status append(std::span<const std::byte> bytes);

  // append() of a whole tensor, checked to be the one whose turn it is. Errors: also invalid_argument for another name.
  Status append_tensor(std::string_view name, std::span<const std::byte> bytes);

  // Index of the tensor that append() feeds next; tensors().size() when all are complete.
  std::size_t current() const { return current_; }
  std::span<const TensorDecl> tensors() const { return tensors_; }

  // Makes the file appear. Errors: io; invalid_argument when a tensor is not complete (names it).
  Status finish();

 private:
  TensorWriter(OutputFile file, std::vector<TensorDecl> tensors, std::uint64_t alignment);
  Status skip_complete();

  OutputFile file_;
  std::vector<TensorDecl> tensors_;
  std::uint64_t alignment_ = 1;
  std::size_t current_ = 0;
  std::uint64_t written_ = 0;  // bytes of the current tensor
};

// What both containers ask of a declaration: unique non-empty UTF-8 names of at most max_name bytes, at most 4
// dimensions, sizes that neither wrap nor break a block. `path` is the subject of errors (invalid_argument,
// limit_exceeded).
Status check_declarations(std::span<const TensorDecl> tensors, std::size_t max_name, const std::string& path);

}  // namespace plumb::format
