// One anonymous mapping: the memory behind a bank or behind the workers' scratch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/status.h"

namespace plumb::device {

// Zeroed, page-aligned; from 2 MiB on aligned to huge pages and advised to use them (a decode step walks gigabytes of
// weights and KV, and a 4 KiB page table entry every 4 KiB costs). Pages are committed when first touched.
class Arena {
 public:
  // Errors: out_of_memory with the system's reason.
  static Result<Arena> map(std::uint64_t bytes);

  Arena() = default;
  Arena(Arena&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Arena& operator=(Arena&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Arena();

  std::byte* base() const { return base_; }

 private:
  Arena(std::byte* base, std::uint64_t bytes) : base_(base), bytes_(bytes) {}

  std::byte* base_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace plumb::device
