// quantize and pack: what the q8 path needs beside its products.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

void quantize(const QuantizeArgs& a, device::Worker& w) {
  auto* blocks = reinterpret_cast<Q8Block*>(a.out.get());
  // Eight blocks are five lines: workers write lines of their own.
  const auto [lo, hi] = w.share(std::int64_t{a.rows} * a.groups * (a.cols / kQ8Block), 8);
  for (std::int64_t b = lo; b < hi; ++b) quantize_block(a.in.get() + b * kQ8Block, blocks[b]);
}

// The codes of a stored block as they are packed, and its scale. `data` is the block, `scale` its byte where scales lie apart.
inline void stored_codes(WeightFormat format, const std::byte* data, const std::byte* scale, int code_bytes, std::byte* codes,
                         std::byte* packed_scale) {
  const auto exponent = [](std::byte s) {
    const auto e = static_cast<std::uint8_t>(s);
    return static_cast<std::byte>(e < 2 ? 0 : e - 1);
  };
  if (format == WeightFormat::mxfp4) {
    *packed_scale = exponent(*data);
    std::memcpy(codes, data + 1, 16);
  } else if (format == WeightFormat::mxfp4_split) {
    *packed_scale = exponent(*scale);
    blocks::renibble_hf_to_ggml(reinterpret_cast<const std::uint8_t*>(data), reinterpret_cast<std::uint8_t*>(codes));
  } else {
    std::memcpy(packed_scale, data, 2);
    std::memcpy(codes, data + 2, static_cast<std::size_t>(code_bytes));
  }
}

// A task is one group of eight rows. Four bytes at a time: loading is bound by memory and by reading the file.
void pack(const PackArgs& a, device::Worker& w) {
  const WeightView to = packed_shape(a.from);
  const WeightFormatTraits& stored = traits(a.from.format);
  const WeightFormatTraits& packed = traits(to.format);
  const std::int64_t blocks = to.cols / packed.block;
  const std::int64_t groups = to.expert_stride / to.row_stride / 8;
  for (std::int64_t task = w.claim(); task < groups * a.rows; task = w.claim()) {
    const std::int64_t e = task / groups;
    const std::int64_t group = task % groups;
    std::byte* data = a.data.get() + e * to.expert_stride + group * 8 * to.row_stride;
    std::byte* scales = a.scales.get() + e * to.scale_expert_stride + group * 8 * to.scale_row_stride;
    const std::int64_t rows = a.from.rows - group * 8 < 8 ? a.from.rows - group * 8 : 8;
    if (rows < 8) {
      std::memset(data, 0, static_cast<std::size_t>(8 * to.row_stride));
      std::memset(scales, 0, static_cast<std::size_t>(8 * to.scale_row_stride));
    }
    for (std::int64_t j = 0; j < rows; ++j) {
      const std::int64_t row = group * 8 + j;
      const std::byte* from = a.from.data.get() + e * a.from.expert_stride + row * a.from.row_stride;
      const std::byte* from_scales =
          a.from.scales ? a.from.scales.get() + e * a.from.scale_expert_stride + row * a.from.scale_row_stride : nullptr;
      for (std::int64_t b = 0; b < blocks; ++b) {
        std::byte codes[kQ8Block];
        stored_codes(a.from.format, from + b * stored.block_bytes, from_scales == nullptr ? nullptr : from_scales + b,
                     packed.block_bytes, codes, scales + (b * 8 + j) * packed.scale_bytes);
        std::byte* out = data + b * 8 * packed.block_bytes + j * 4;
        for (int i = 0; i < packed.block_bytes; i += 4) std::memcpy(out + i * 8, codes + i, 4);
      }
    }
  }
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
