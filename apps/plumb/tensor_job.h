// A tensor still to be written: its name, its shape, and a function that makes any part of its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace plumb::app {

// Writes out.size() bytes, those that begin `offset` bytes into the tensor. Both are multiples of the job's granule.
// Thread rule: called from several threads at once.
using FillFn = std::function<void(std::uint64_t offset, std::span<std::byte> out)>;

struct TensorJob {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::uint64_t> shape;  // outermost first
  std::uint64_t granule = 1;         // divides the tensor's bytes
  FillFn fill;

  std::uint64_t bytes() const { return *tensor_bytes(dtype, shape); }
};

inline std::uint64_t total_bytes(std::span<const TensorJob> jobs) {
  std::uint64_t sum = 0;
  for (const TensorJob& job : jobs) sum += job.bytes();
  return sum;
}

}  // namespace plumb::app
