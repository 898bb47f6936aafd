// Random weights for the conformance suite. Compiled into the test binary only.
#include <cstring>

#include "base/blocks.h"
#include "base/super_blocks.h"
#include "kernels/conformance/shape_case.h"
#include "kernels/ref/reference.h"

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
    case WeightFormat::q4_1:
      put(data, f16_scale(random));
      put(data + 2, f16_scale(random));
      fill_codes(data + 4, 16, random);
      return;
    case WeightFormat::iq4_nl:
      put(data, f16_scale(random));
      fill_codes(data + 2, 16, random);
      return;
    case WeightFormat::nvfp4:
      for (int sub = 0; sub < 4; ++sub) data[sub] = static_cast<std::byte>(random.below(8) == 0 ? random.below(8) : 0x28 + random.below(24));
      fill_codes(data + 4, 32, random);
      return;
    case WeightFormat::q4_k:
    case WeightFormat::q5_k:
      fill_codes(data + 4, traits(format).block_bytes - 4, random);
      put(data, f16_scale(random));
      put(data + 2, f16_scale(random));
      return;
    case WeightFormat::q6_k:
      fill_codes(data, blocks::kQ6kD, random);
      put(data + blocks::kQ6kD, f16_scale(random));
      return;
    default: return;  // fill_packed
  }
}

// All bytes that the layout has are codes of some block; the rows that fill up the last group are zero.
void fill_packed(const WeightView& w, Random& random) {
  const WeightFormatTraits& t = traits(w.format);
  const std::int64_t blocks = w.cols / t.block;
  for (std::int64_t e = 0; e < w.experts; ++e) {
    auto* data = const_cast<std::byte*>(w.data.get()) + e * w.expert_stride;
    auto* scales = const_cast<std::byte*>(w.scales.get()) + e * w.scale_expert_stride;
    for (std::int64_t r = 0; r < w.rows; r += t.group) {  // what lies between groups is not the matrix's
      std::memset(data + packed_offset(w, r, 0), 0, static_cast<std::size_t>(blocks * t.group * t.block_bytes));
      std::memset(scales + packed_scale_offset(w, r, 0), 0, static_cast<std::size_t>(blocks * t.group * t.scale_bytes));
    }
    for (std::int64_t r = 0; r < w.rows; ++r) {
      for (std::int64_t b = 0; b < blocks; ++b) {
        for (int i = 0; i < t.block_bytes; i += 4) fill_codes(data + packed_offset(w, r, b) + i * t.group, 4, random);
        for (int field = 0; field < t.scale_bytes; ++field) {
          std::byte* scale = scales + packed_scale_offset(w, r, b, field);
          if (field < 2 * t.scale_halves) {
            put(scale, f16_scale(random));
            ++field;
          } else if (w.format == WeightFormat::mxfp4_r8) {
            *scale = random.below(16) == 0 ? std::byte{0} : e8m0_scale(random);
          } else {  // the scales and mins of parts: six bits, or eight signed
            *scale = static_cast<std::byte>(random.below(w.format == WeightFormat::q6_k_r8 ? 256 : 64));
          }
        }
      }
    }
  }
}

}  // namespace

void fill_weight(const WeightView& w, Random& random) {
  for (std::int64_t e = 0; w.factors && e < w.experts; ++e) const_cast<float*>(w.factors.get())[e] = random.value();
  if (is_packed(w.format)) return fill_packed(w, random);
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
  const std::int64_t padded = (rows + t.group - 1) / t.group * t.group;
  w.expert_stride = padded * w.row_stride;
  if (t.scale_bytes > 0) {
    w.scales = given<const std::byte>();
    w.scale_row_stride = std::int64_t{cols} / t.block * t.scale_bytes + gap;
    w.scale_expert_stride = padded * w.scale_row_stride;
  }
  if (format == WeightFormat::nvfp4 || format == WeightFormat::nvfp4_r8) w.factors = given<const float>();
  return w;
}

namespace {
std::vector<WeightFormat> formats_that_are(bool packed) {
  std::vector<WeightFormat> formats;
  for (int f = 0; f < kWeightFormatCount; ++f) {
    if (is_packed(static_cast<WeightFormat>(f)) == packed) formats.push_back(static_cast<WeightFormat>(f));
  }
  return formats;
}
}  // namespace

std::vector<WeightFormat> stored_formats() { return formats_that_are(false); }
std::vector<WeightFormat> packed_formats() { return formats_that_are(true); }

void fill_q8(const std::byte* rows, std::int64_t vectors, std::int64_t cols, Random& random) {
  std::vector<float> values(static_cast<std::size_t>(vectors * cols));
  random.values(values.data(), vectors * cols);
  // Some blocks as they are when an activation is small, or when nothing came through a gate.
  for (std::int64_t b = 0; b < vectors * cols / kQ8Block; ++b) {
    const float factor = b % 7 == 3 ? 0.0F : b % 5 == 2 ? 1e-4F : 1.0F;
    for (std::int64_t k = 0; k < kQ8Block; ++k) values[static_cast<std::size_t>(b * kQ8Block + k)] *= factor;
  }
  reference(QuantizeArgs{.out = host_ref(const_cast<std::byte*>(rows)),
                         .in = host_ref<const float>(values.data()),
                         .cols = static_cast<std::int32_t>(cols),
                         .rows = static_cast<std::int32_t>(vectors)});
}

}  // namespace plumb::kernels::conformance
