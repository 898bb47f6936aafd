// One set of limits for every parser that reads bytes from outside: model files, tokenizers, templates, requests.
//
// The rule behind the numbers: memory follows the verified length of the input, never a count the input declares. A parser
// multiplies with overflow checks (checked_mul) and compares against the bytes that are really there before it allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace plumb {

struct ParseLimits {
  std::uint64_t max_file_bytes = std::uint64_t{1} << 42;   // 4 TiB: above any checkpoint, below where sums can wrap
  std::uint64_t max_header_bytes = std::uint64_t{1} << 30; // safetensors headers and GGUF metadata with vocabulary
  std::uint64_t max_string_bytes = std::uint64_t{1} << 26; // one string value (a chat template, a merge list entry)
  std::uint64_t max_elements = std::uint64_t{1} << 40;     // elements of one tensor
  std::uint32_t max_tensors = 1U << 20;
  std::uint32_t max_array = 1U << 26;                      // entries of one metadata array (vocabulary, merges)
  std::uint32_t max_dims = 4;                              // GGUF's own limit; safetensors above it is refused by name
  std::uint32_t max_depth = 64;                            // JSON nesting
  std::uint32_t max_name_bytes = 1024;                     // tensor names and metadata keys
  std::uint32_t max_layers = 4096;
};

// Product or sum without wrapping: nullopt when the true value does not fit.
inline std::optional<std::uint64_t> checked_mul(std::uint64_t a, std::uint64_t b) {
  std::uint64_t r = 0;
  if (__builtin_mul_overflow(a, b, &r)) return std::nullopt;
  return r;
}
inline std::optional<std::uint64_t> checked_add(std::uint64_t a, std::uint64_t b) {
  std::uint64_t r = 0;
  if (__builtin_add_overflow(a, b, &r)) return std::nullopt;
  return r;
}

}  // namespace plumb
