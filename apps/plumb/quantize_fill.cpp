#include "quantize_fill.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace plumb::app {

using format::quantize::ErrorSum;
using format::quantize::Format;

void MatrixSource::read(std::uint64_t first, std::span<float> out) const {
  const DTypeInfo& info = dtype_info(type);
  std::vector<std::byte> stored(out.size() / info.block_elements * info.block_bytes);
  bytes(first / info.block_elements * info.block_bytes, stored);
  format::quantize::decode_blocks(type, reinterpret_cast<const std::uint8_t*>(stored.data()), out.size(), out.data());
  if (factors.empty()) return;
  const float factor = factors[first / matrix_elements];
  for (float& value : out) value *= factor;
}

float MatrixSource::largest(std::uint64_t matrix, float limit) const {
  std::vector<float> values;
  float most = 0;
  for (std::uint64_t at = 0; at < matrix_elements; at += values.size()) {
    values.resize(std::min(step, matrix_elements - at));
    read(matrix * matrix_elements + at, values);
    for (const float value : values) {
      const float magnitude = std::fabs(value);
      if (magnitude <= limit) most = std::max(most, magnitude);  // a NaN is not
    }
  }
  return most;
}

MatrixFactors::MatrixFactors(std::shared_ptr<const MatrixSource> source, const Format& format)
    : source_(std::move(source)), format_(format), found_(std::make_unique<std::once_flag[]>(source_->matrices)), factors_(source_->matrices, 1.0F) {}

float MatrixFactors::of(std::uint64_t matrix) {
  if (format_.full_scale == 0) return 1;
  std::call_once(found_[matrix], [&] { factors_[matrix] = format::quantize::matrix_factor(format_, source_->largest(matrix, format_.limit)); });
  return factors_[matrix];
}

FillFn quantized_fill(std::shared_ptr<const MatrixSource> source, const Format& format, std::shared_ptr<MatrixFactors> factors, Refusal refusal,
                      std::shared_ptr<ErrorTally> errors) {
  return [=, &format](std::uint64_t offset, std::span<std::byte> out) {
    const DTypeInfo& info = dtype_info(format.type);
    const std::uint64_t first = offset / info.block_bytes * info.block_elements;
    const std::uint64_t count = out.size() / info.block_bytes * info.block_elements;
    std::vector<float> values, relative, again;
    ErrorSum sum;
    for (std::uint64_t at = 0; at < count; at += values.size()) {
      const std::uint64_t matrix = (first + at) / source->matrix_elements;
      const std::uint64_t n = std::min({source->step, count - at, (matrix + 1) * source->matrix_elements - (first + at)});
      values.resize(n);
      relative.resize(n);
      again.resize(n);
      source->read(first + at, values);
      for (float& value : values) {
        if (std::fabs(value) <= format.limit) continue;
        refusal->store(true, std::memory_order_relaxed);
        value = 0;
      }
      const float factor = factors->of(matrix);
      std::transform(values.begin(), values.end(), relative.begin(), [&](float value) { return value / factor; });
      auto* blocks = reinterpret_cast<std::uint8_t*>(out.data()) + at / info.block_elements * info.block_bytes;
      for (std::uint64_t i = 0; i < n; i += info.block_elements) format.encode(relative.data() + i, blocks + i / info.block_elements * info.block_bytes);
      format::quantize::decode_blocks(format.type, blocks, n, again.data());
      for (float& value : again) value *= factor;
      sum.add(values, again);
    }
    errors->add(offset, sum);
  };
}

FillFn factors_fill(std::shared_ptr<MatrixFactors> factors) {
  return [factors = std::move(factors)](std::uint64_t offset, std::span<std::byte> out) {
    for (std::uint64_t at = 0; at < out.size(); at += sizeof(float)) {
      const float factor = factors->of((offset + at) / sizeof(float));
      std::memcpy(out.data() + at, &factor, sizeof factor);
    }
  };
}

}  // namespace plumb::app
