#include <cstring>

#include "base/blocks.h"
#include "kernels/ref/reference.h"

namespace plumb::kernels {
namespace {

// The codes of one stored block in the order of the packed layout's nibbles or bytes, and its scale as it is packed.
struct StoredBlock {
  std::uint8_t codes[kQ8Block] = {};  // q8_0: 32 bytes; the others: 16 bytes, nibbles j and j + 16
  std::uint8_t scale[2] = {};
};

StoredBlock stored_block(const WeightView& w, std::int64_t expert, std::int64_t row, std::int64_t block) {
  StoredBlock out;
  const WeightFormatTraits& t = traits(w.format);
  const std::byte* data = w.data.get() + expert * w.expert_stride + row * w.row_stride + block * t.block_bytes;
  const auto e8m0 = [](std::uint8_t s) { return static_cast<std::uint8_t>(s < 2 ? 0 : s - 1); };
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
    default:  // q8_0 and q4_0: an f16 scale, then the codes
      std::memcpy(out.scale, data, 2);
      std::memcpy(out.codes, data + 2, static_cast<std::size_t>(t.block_bytes) - 2);
  }
  return out;
}

}  // namespace

void reference(const PackArgs& a) {
  const WeightView to = packed_shape(a.from);
  const WeightFormatTraits& t = traits(to.format);
  for (std::int64_t e = 0; e < a.rows; ++e) {
    for (std::int64_t row = 0; row < to.expert_stride / to.row_stride; ++row) {
      for (std::int64_t b = 0; b < to.cols / t.block; ++b) {
        const StoredBlock block = row < a.from.rows ? stored_block(a.from, e, row, b) : StoredBlock{};
        std::byte* data = a.data.get() + e * to.expert_stride + packed_offset(to, row, b);
        for (int i = 0; i < t.block_bytes; i += 4) std::memcpy(data + i * t.group, block.codes + i, 4);
        std::memcpy(a.scales.get() + e * to.scale_expert_stride + packed_scale_offset(to, row, b), block.scale,
                    static_cast<std::size_t>(t.scale_bytes));
      }
    }
  }
}

}  // namespace plumb::kernels
