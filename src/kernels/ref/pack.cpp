#include <cstring>

#include "base/blocks.h"
#include "kernels/ref/reference.h"
#include "kernels/ref/stored_element.h"

namespace plumb::kernels {
namespace {

// The codes of one stored block in the order of the packed layout's nibbles or bytes, and its scale as it is packed.
struct StoredBlock {
  std::uint8_t codes[192] = {};  // block_bytes of the packed format
  std::byte scale[20] = {};      // scale_bytes, its fields in order
};

StoredBlock stored_block(const WeightView& w, std::int64_t expert, std::int64_t row, std::int64_t block) {
  StoredBlock out;
  const WeightFormatTraits& t = traits(w.format);
  const std::byte* data = w.data.get() + expert * w.expert_stride + row * w.row_stride + block * t.block_bytes;
  const auto e8m0 = [](std::uint8_t s) { return static_cast<std::byte>(s < 2 ? 0 : s - 1); };
  switch (w.format) {
    case WeightFormat::mxfp4:
      out.scale[0] = e8m0(static_cast<std::uint8_t>(data[0]));
      std::memcpy(out.codes, data + 1, 16);
      break;
    case WeightFormat::mxfp4_split: {
      const std::byte* scales = w.scales.get() + expert * w.scale_expert_stride + row * w.scale_row_stride;
      out.scale[0] = e8m0(static_cast<std::uint8_t>(scales[block]));
      blocks::renibble_hf_to_ggml(reinterpret_cast<const std::uint8_t*>(data), out.codes);
      break;
    }
    case WeightFormat::iq4_nl:
    case WeightFormat::q4_1:
    case WeightFormat::nvfp4:
    case WeightFormat::q4_k:
    case WeightFormat::q5_k:
    case WeightFormat::q6_k: {
      stored_scales(w.format, data, out.scale);
      const WeightFormatTraits& packed = traits(*packed_format(w.format));
      const int part_bytes = packed.block_bytes * 32 / packed.block;
      const int upper_bits = (part_bytes - 16) / 4;
      for (int k = 0; k < t.block; ++k) {
        std::uint8_t* part = out.codes + k / 32 * part_bytes;
        const int code = stored_code(w.format, data, k);
        const int l = k % 32;
        part[l % 16] = static_cast<std::uint8_t>(part[l % 16] | (code % 16) << (l < 16 ? 0 : 4));
        if (upper_bits == 0) continue;
        const int codes_of_byte = 8 / upper_bits;
        std::uint8_t& upper = part[16 + l / (4 * codes_of_byte) * 4 + l % 4];
        upper = static_cast<std::uint8_t>(upper | (code / 16) << (upper_bits * (l / 4 % codes_of_byte)));
      }
      break;
    }
    default:  // q8_0 and q4_0: an f16 scale, then the codes
      std::memcpy(out.scale, data, 2);
      std::memcpy(out.codes, data + 2, static_cast<std::size_t>(t.block_bytes) - 2);
  }
  return out;
}

}  // namespace

void reference(const PackArgs& a) {
  const WeightView to = packed_shape(a.from, a.interleaved);
  const WeightFormatTraits& t = traits(to.format);
  for (std::int64_t e = 0; e < a.rows; ++e) {
    for (std::int64_t row = 0; row < to.expert_stride / to.row_stride; ++row) {
      for (std::int64_t b = 0; b < to.cols / t.block; ++b) {
        const StoredBlock block = row < a.from.rows ? stored_block(a.from, e, row, b) : StoredBlock{};
        std::byte* data = a.data.get() + e * to.expert_stride + packed_offset(to, row, b);
        for (int i = 0; i < t.block_bytes; i += 4) std::memcpy(data + i * t.group, block.codes + i, 4);
        for (int field = 0; field < t.scale_bytes;) {
          const int width = field < 2 * t.scale_halves ? 2 : 1;
          std::memcpy(a.scales.get() + e * to.scale_expert_stride + packed_scale_offset(to, row, b, field), block.scale + field,
                      static_cast<std::size_t>(width));
          field += width;
        }
      }
    }
  }
}

}  // namespace plumb::kernels
