// Reader of one GGUF file, versions 2 and 3, little-endian (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).
#pragma once

#include "base/mapped_file.h"
#include "base/parse_limits.h"
#include "base/status.h"
#include "format/safetensors.h"

namespace plumb::format {

inline constexpr std::uint32_t kGgufMagic = 0x46554747;     // "GGUF" read as a little-endian u32
inline constexpr std::uint32_t kGgufDefaultAlignment = 32;  // where general.alignment is absent
inline constexpr std::uint32_t kGgufMaxTensorName = 63;  // the reference reader's limit (a 64-byte field with its NUL)

// Reads keys and tensor table and verifies both against the bytes that are really there. Tensors must stand in table
// order without overlap or hole (each begins at the sum of the padded sizes before it), as the reference reader
// requires. Shapes are reversed to outermost first. Bytes after the last tensor are ignored. Refused by name: version
// 1, versions above 3, big-endian files, nested arrays, retired and unknown tensor types. Errors: truncated, malformed,
// limit_exceeded, unsupported.
Result<FileContents> read_gguf(const MappedFile& file, const ParseLimits& limits);

}  // namespace plumb::format
