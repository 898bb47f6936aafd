// Random weights for the conformance suite. Compiled into the test binary only.
#include <cstring>

#include "base/blocks.h"
#include "kernels/conformance/shape_case.h"

namespace plumb::kernels::conformance {
namespace {

template <class T>
void put(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

// A scale around 1 for each format, never 0 and never NaN.
std::uint16_t f16_scale(Random& random) {
  return blocks::float_to_f16(0.01F + 0.002F * static_cast<float>(random.below(100)) * (random.below(2) == 0 ? 1.0F : -1.0F));
}
std::byte e8m0_scale(Random& random) { return static_cast<std::byte>(122 + random.below(8)); }

void fill_codes(std::byte* to, int count, Random& random) {
  for (int i = 0; i < count; ++i) to[i] = static_cast<std::byte>(random.bits() & 0xFF);
}

void fill_block(WeightFormat format, std::byte* data, std::byte* scale, Random& random) {
  switch (format) {
    case WeightFormat::f32: put(data, random.value()); return;
    case WeightFormat::f16: put(data, blocks::float_to_f16(random.value())); return;
    case WeightFormat::bf16: put(data, blocks::float_to_bf16(random.value())); return;
    case WeightFormat::q8_0:
      put(data, f16_scale(random));
      fill_codes(data + 2, 32, random);
      return;
    case WeightFormat::q4_0:
      put(data, f16_scale(random));
      fill_codes(data + 2, 16, random);
      return;
    case WeightFormat::mxfp4:
      data[0] = e8m0_scale(random);
      fill_codes(data + 1, 16, random);
      return;
    case WeightFormat::mxfp4_split:
      *scale = e8m0_scale(random);
      fill_codes(data, 16, random);
      return;
  }
}

}  // namespace

void fill_weight(const WeightView& w, Random& random) {
  const WeightFormatTraits& t = traits(w.format);
  auto* data = const_cast<std::byte*>(w.data.get());
  auto* scales = const_cast<std::byte*>(w.scales.get());
  for (std::int64_t e = 0; e < w.experts; ++e) {
    for (std::int64_t r = 0; r < w.rows; ++r) {
      for (std::int64_t b = 0; b < w.cols / t.block; ++b) {
        std::byte* scale = nullptr;
        if (scales != nullptr) scale = scales + e * w.scale_expert_stride + r * w.scale_row_stride + b;
        fill_block(w.format, data + e * w.expert_stride + r * w.row_stride + b * t.block_bytes, scale, random);
      }
    }
  }
}

WeightView weight_shape(WeightFormat format, std::int32_t rows, std::int32_t cols, std::int32_t experts, std::int64_t gap) {
  const WeightFormatTraits& t = traits(format);
  WeightView w;
  w.data = given<const std::byte>();
  w.format = format;
  w.rows = rows;
  w.cols = cols;
  w.experts = experts;
  w.row_stride = std::int64_t{cols} / t.block * t.block_bytes + gap;
  w.expert_stride = rows * w.row_stride;
  if (t.scale_bytes > 0) {
    w.scales = given<const std::byte>();
    w.scale_row_stride = cols / t.block + gap;
    w.scale_expert_stride = rows * w.scale_row_stride;
  }
  return w;
}

std::vector<WeightFormat> all_formats() {
  std::vector<WeightFormat> formats;
  for (int f = 0; f < kWeightFormatCount; ++f) formats.push_back(static_cast<WeightFormat>(f));
  return formats;
}

}  // namespace plumb::kernels::conformance
