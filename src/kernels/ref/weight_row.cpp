#include "kernels/ref/weight_row.h"

#include <cstring>

#include "base/blocks.h"

namespace plumb::kernels {
namespace {

// Stored values need not be aligned.
template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Block `index` of a row: `out` gets one element of a plain format, 32 of a block format.
void decode_block(const WeightView& w, const std::byte* data, const std::byte* scales, std::int64_t index, float* out) {
  const std::byte* block = data + index * traits(w.format).block_bytes;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(block);
  switch (w.format) {
    case WeightFormat::f32: *out = load<float>(block); return;
    case WeightFormat::f16: *out = blocks::f16_to_float(load<std::uint16_t>(block)); return;
    case WeightFormat::bf16: *out = blocks::bf16_to_float(load<std::uint16_t>(block)); return;
    case WeightFormat::q8_0: blocks::decode_q8_0(bytes, out); return;
    case WeightFormat::q4_0: blocks::decode_q4_0(bytes, out); return;
    case WeightFormat::mxfp4: blocks::decode_mxfp4(bytes, out); return;
    case WeightFormat::mxfp4_split:
      blocks::decode_mxfp4_hf(bytes, static_cast<std::uint8_t>(scales[index]), out);
      return;
  }
}

}  // namespace

std::vector<double> weight_row(const WeightView& w, std::int64_t expert, std::int64_t row) {
  const std::byte* data = w.data.get() + expert * w.expert_stride + row * w.row_stride;
  const std::byte* scales = nullptr;
  if (w.scales) scales = w.scales.get() + expert * w.scale_expert_stride + row * w.scale_row_stride;
  const int block = traits(w.format).block;
  std::vector<double> out;
  out.reserve(static_cast<std::size_t>(w.cols));
  for (std::int64_t i = 0; i < w.cols / block; ++i) {
    float values[blocks::kBlock];
    decode_block(w, data, scales, i, values);
    out.insert(out.end(), values, values + block);
  }
  return out;
}

}  // namespace plumb::kernels
