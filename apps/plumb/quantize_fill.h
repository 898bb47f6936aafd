// Fills that make another job's bytes, decode them and quantise them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "conversion.h"
#include "error_tally.h"
#include "format/quantize/quantize.h"
#include "tensor_job.h"

namespace plumb::app {

// The numbers of a tensor of one or more matrices of one size.
struct MatrixSource {
  FillFn bytes;
  DType type = DType::f32;
  std::uint64_t matrices = 1;
  std::uint64_t matrix_elements = 0;
  std::vector<float> factors;  // of each matrix; empty: 1
  std::uint64_t step = 1;      // elements to be read at once: a multiple of what `bytes` makes at once

  // Elements from `first` on. REQUIRES: all of one matrix; whole units of what `bytes` makes at once.
  // Thread rule: from several threads at once.
  void read(std::uint64_t first, std::span<float> out) const;
  // Largest magnitude of a matrix among those up to `limit`. Reads all of it.
  float largest(std::uint64_t matrix, float limit) const;
};

// The factors that quantised matrices are stored with. Each takes a reading of its whole matrix, and is found when it is first asked for.
class MatrixFactors {
 public:
  MatrixFactors(std::shared_ptr<const MatrixSource> source, const format::quantize::Format& format);

  // Thread rule: from several threads at once; one finds the factor and the others wait for it.
  float of(std::uint64_t matrix);

 private:
  std::shared_ptr<const MatrixSource> source_;
  const format::quantize::Format& format_;
  std::unique_ptr<std::once_flag[]> found_;
  std::vector<float> factors_;
};

// The matrices in `format`. A number beyond its limit sets the refusal.
FillFn quantized_fill(std::shared_ptr<const MatrixSource> source, const format::quantize::Format& format, std::shared_ptr<MatrixFactors> factors,
                      Refusal refusal, std::shared_ptr<ErrorTally> errors);

// The factors themselves, in f32.
FillFn factors_fill(std::shared_ptr<MatrixFactors> factors);

}  // namespace plumb::app
