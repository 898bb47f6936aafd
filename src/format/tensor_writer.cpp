#include "format/tensor_writer.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/parse_limits.h"
#include "base/printable.h"
#include "format/checkpoint.h"

namespace plumb::format {

TensorWriter::TensorWriter(OutputFile file, std::vector<TensorDecl> tensors, std::uint64_t alignment)
    : file_(std::move(file)), tensors_(std::move(tensors)), alignment_(alignment) {}

Result<TensorWriter> TensorWriter::create(const std::string& path, std::span<const std::byte> header,
                                          std::vector<TensorDecl> tensors, std::uint64_t alignment) {
  PLUMB_CHECK(alignment > 0 && header.size() % alignment == 0);
  PLUMB_ASSIGN(OutputFile file, OutputFile::create(path));
  PLUMB_TRY(file.write(header));
  TensorWriter writer(std::move(file), std::move(tensors), alignment);
  PLUMB_TRY(writer.skip_complete());
  return writer;
}

// Pads after each complete tensor and moves on; tensors of no bytes are complete as they stand.
Status TensorWriter::skip_complete() {
  constexpr std::array<std::byte, 4096> kZeros{};
  while (current_ < tensors_.size() && written_ == tensors_[current_].bytes()) {
    std::uint64_t padding = (alignment_ - written_ % alignment_) % alignment_;
    while (padding > 0) {
      const std::uint64_t piece = std::min<std::uint64_t>(padding, kZeros.size());
      PLUMB_TRY(file_.write(std::span(kZeros).first(piece)));
      padding -= piece;
    }
    ++current_;
    written_ = 0;
  }
  return {};
}

Status TensorWriter::append(std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  if (current_ == tensors_.size()) {
    return fail(ErrorCode::invalid_argument, "all declared tensors are complete", file_.path(), "",
                std::to_string(bytes.size()) + " more bytes");
  }
  const TensorDecl& tensor = tensors_[current_];
  if (bytes.size() > tensor.bytes() - written_) {
    return fail(ErrorCode::invalid_argument,
                "more bytes than the " + std::to_string(tensor.bytes()) + " of " + shape_text(tensor.shape) + " " +
                    std::string(to_string(tensor.dtype)),
                file_.path(), tensor.name, std::to_string(written_ + bytes.size()));
  }
  PLUMB_TRY(file_.write(bytes));
  written_ += bytes.size();
  return skip_complete();
}

Status TensorWriter::append_tensor(std::string_view name, std::span<const std::byte> bytes) {
  const std::string expected = current_ < tensors_.size() ? tensors_[current_].name : "nothing";
  if (expected != name || written_ != 0) {
    return fail(ErrorCode::invalid_argument, "out of turn: the next bytes belong to " + expected, file_.path(),
                std::string(name));
  }
  if (bytes.size() != tensors_[current_].bytes()) {
    return fail(ErrorCode::invalid_argument, "must be " + std::to_string(tensors_[current_].bytes()) + " bytes",
                file_.path(), std::string(name), std::to_string(bytes.size()));
  }
  return append(bytes);
}

Status TensorWriter::finish() {
  if (current_ < tensors_.size()) {
    return fail(ErrorCode::invalid_argument,
                "tensor is not complete: it has " + std::to_string(tensors_[current_].bytes()) + " bytes", file_.path(),
                tensors_[current_].name, std::to_string(written_));
  }
  return file_.commit();
}

Status check_declarations(std::span<const TensorDecl> tensors, std::size_t max_name, const std::string& path) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  const ParseLimits limits;
  for (const TensorDecl& tensor : tensors) {
    const auto error = [&](ErrorCode code, std::string message, std::string value = {}) {
      return fail(code, std::move(message), path, printable(tensor.name), std::move(value));
    };
    if (tensor.name.empty() || !is_utf8(tensor.name))
      return error(ErrorCode::invalid_argument, "tensor name must be UTF-8 and not empty");
    if (tensor.name.size() > max_name) {
      return error(ErrorCode::limit_exceeded, "tensor name is longer than " + std::to_string(max_name) + " bytes",
                   std::to_string(tensor.name.size()));
    }
    if (tensor.shape.size() > limits.max_dims)
      return error(ErrorCode::limit_exceeded, "more than 4 dimensions", shape_text(tensor.shape));
    const auto elements = element_count(tensor.shape);
    if (!elements || *elements > limits.max_elements)
      return error(ErrorCode::limit_exceeded, "too many elements", shape_text(tensor.shape));
    if (!tensor_bytes(tensor.dtype, tensor.shape)) {
      return error(ErrorCode::invalid_argument,
                   "innermost dimension is not a multiple of the block of " + std::string(to_string(tensor.dtype)),
                   shape_text(tensor.shape));
    }
    names.push_back(tensor.name);
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    return fail(ErrorCode::invalid_argument, "tensor is declared twice", path, printable(*twice));
  return {};
}

}  // namespace plumb::format
