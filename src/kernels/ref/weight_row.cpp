#include "kernels/ref/weight_row.h"

#include <cmath>
#include <cstring>

#include "base/blocks.h"
#include "kernels/ref/stored_element.h"

namespace plumb::kernels {
namespace {

// Stored values need not be aligned.
template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// The formats of stored_element.h.
bool in_parts(WeightFormat format) {
  switch (format) {
    case WeightFormat::q4_1:
    case WeightFormat::iq4_nl:
    case WeightFormat::nvfp4:
    case WeightFormat::q4_k:
    case WeightFormat::q5_k:
    case WeightFormat::q6_k:
    case WeightFormat::iq4_nl_r8:
    case WeightFormat::q4_1_r8:
    case WeightFormat::nvfp4_r8:
    case WeightFormat::q4_k_r8:
    case WeightFormat::q5_k_r8:
    case WeightFormat::q6_k_r8: return true;
    default: return false;
  }
}

ElementParts element_parts(const WeightView& w, std::int64_t expert, std::int64_t row, std::int64_t k) {
  const WeightFormatTraits& t = traits(w.format);
  const std::int64_t index = k / t.block;
  const int in_block = static_cast<int>(k % t.block);
  if (is_packed(w.format)) return packed_element(w, expert, row, index, in_block);
  return stored_element(w.format, w.data.get() + expert * w.expert_stride + row * w.row_stride + index * t.block_bytes, in_block);
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
    default: return;  // stored_element, decode_packed
  }
}

// Block `index` of a row of a packed matrix.
void decode_packed(const WeightView& w, std::int64_t expert, std::int64_t row, std::int64_t index, float* out) {
  const WeightFormatTraits& t = traits(w.format);
  const std::byte* data = w.data.get() + expert * w.expert_stride + packed_offset(w, row, index);
  const std::byte* scale = w.scales.get() + expert * w.scale_expert_stride + packed_scale_offset(w, row, index);
  for (int k = 0; k < t.block; ++k) {
    const int i = k % t.block_bytes;
    const int byte = static_cast<std::uint8_t>(data[i / 4 * 4 * t.group + i % 4]);
    const int nibble = k < 16 ? byte & 15 : byte >> 4;
    if (w.format == WeightFormat::mxfp4_r8) {
      const auto s = static_cast<std::uint8_t>(*scale);
      out[k] = s == 0 ? 0.0F : blocks::kE2m1[nibble] * 2 * blocks::e8m0_to_float(s);
    } else {
      const int code = w.format == WeightFormat::q8_0_r8 ? static_cast<std::int8_t>(byte) : nibble - 8;
      out[k] = static_cast<float>(code) * blocks::f16_to_float(load<std::uint16_t>(scale));
    }
  }
}

}  // namespace

std::vector<double> weight_row(const WeightView& w, std::int64_t expert, std::int64_t row) {
  const std::byte* data = w.data.get() + expert * w.expert_stride + row * w.row_stride;
  const std::byte* scales = nullptr;
  if (w.scales) scales = w.scales.get() + expert * w.scale_expert_stride + row * w.scale_row_stride;
  const int block = traits(w.format).block;
  const double factor = w.factors ? double{w.factors[expert]} : 1.0;
  std::vector<double> out;
  out.reserve(static_cast<std::size_t>(w.cols));
  if (in_parts(w.format)) {
    for (std::int64_t k = 0; k < w.cols; ++k) {
      const ElementParts element = element_parts(w, expert, row, k);
      out.push_back((element.product + element.offset) * factor);
    }
    return out;
  }
  for (std::int64_t i = 0; i < w.cols / block; ++i) {
    float values[blocks::kBlock];
    if (is_packed(w.format)) {
      decode_packed(w, expert, row, i, values);
    } else {
      decode_block(w, data, scales, i, values);
    }
    for (int k = 0; k < block; ++k) out.push_back(values[k] * factor);
  }
  return out;
}

std::vector<double> weight_magnitudes(const WeightView& w, std::int64_t expert, std::int64_t row) {
  std::vector<double> out = weight_row(w, expert, row);
  for (std::int64_t k = 0; k < w.cols; ++k) {
    double& value = out[static_cast<std::size_t>(k)];
    value = std::fabs(value);
    if (!is_packed(w.format) || !in_parts(w.format)) continue;
    const ElementParts element = element_parts(w, expert, row, k);
    value = (std::fabs(element.product) + std::fabs(element.offset)) * (w.factors ? std::fabs(double{w.factors[expert]}) : 1.0);
  }
  return out;
}

std::vector<double> activation_row(const Ref<const float>& in, const Ref<const std::byte>& in_q8, std::int64_t row, std::int64_t cols) {
  if (in) return {in.get() + row * cols, in.get() + (row + 1) * cols};
  std::vector<double> out;
  const Q8Block* blocks = q8_row(in_q8.get(), row, cols);
  for (std::int64_t k = 0; k < cols; ++k) out.push_back(double{blocks[k / kQ8Block].scale} * blocks[k / kQ8Block].codes[k % kQ8Block]);
  return out;
}

}  // namespace plumb::kernels
