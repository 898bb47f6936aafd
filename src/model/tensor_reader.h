// TensorReader: takes tensors out of a checkpoint by name and shape, and remembers which, so that a tensor nobody asked for is
// an error and not a silent loss.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "format/checkpoint.h"
#include "model/weights.h"

namespace plumb::model {

class TensorReader {
 public:
  explicit TensorReader(const format::Checkpoint& checkpoint);

  bool has(std::string_view name) const { return checkpoint_.find(name) != nullptr; }

  // A matrix [rows][cols], or with experts > 0 a stack [experts][rows][cols], in any WeightFormat of one tensor. Beside `base`.weight a
  // GGUF file may have `base`.scale, a factor of each matrix, as llama.cpp writes it for NVFP4; `base`.input_scale, for activations in NVFP4,
  // says nothing to us.
  // Errors: missing_tensor; shape_mismatch with expected and found; unsupported naming the element type; malformed for a
  // NaN block scale, and for a factor that is not finite.
  Result<MatrixWeight> matrix(const std::string& name, std::int64_t rows, std::int64_t cols, std::int64_t experts = 0);

  // A stack of MXFP4 matrices in the Hugging Face layout: `base`_blocks u8 [experts][rows][cols / 32][16] and `base`_scales
  // u8 [experts][rows][cols / 32].
  Result<MatrixWeight> split_mxfp4(const std::string& base, std::int64_t experts, std::int64_t rows, std::int64_t cols);

  // n values, widened to float32 from f32, f16 or bf16. The stored shape may have any number of dimensions.
  Result<VectorWeight> vector(const std::string& name, std::int64_t n);

  // unexpected_tensor naming the first tensor that nobody took.
  Status finish() const;

  // Marks a tensor as known and not needed.
  void ignore(std::string_view name);

 private:
  // reject_nan_scales, and lets the pages it read go.
  Status check_scales(const format::TensorView& tensor) const;
  Result<VectorWeight> factors(const std::string& matrix, std::int64_t matrices);
  Result<const format::TensorView*> take(const std::string& name, const std::vector<std::uint64_t>& shape);
  const format::Checkpoint& checkpoint_;
  std::vector<bool> taken_;
};

// Every second row of a stack whose rows interleave two matrices: parity 0 or 1 of [experts][2 * rows][cols].
MatrixWeight interleaved(const MatrixWeight& both, int parity);

}  // namespace plumb::model
