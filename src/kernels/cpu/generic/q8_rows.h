// quantize and pack: what the q8 path needs beside its products.
#pragma once

namespace plumb::kernels::cpu::PLUMB_CPU_ISA {

void quantize(const QuantizeArgs& a, device::Worker& w) {
  auto* blocks = reinterpret_cast<Q8Block*>(a.out.get());
  // Eight blocks are five lines: workers write lines of their own.
  const auto [lo, hi] = w.share(std::int64_t{a.rows} * a.groups * (a.cols / kQ8Block), 8);
  for (std::int64_t b = lo; b < hi; ++b) quantize_block(a.in.get() + b * kQ8Block, blocks[b]);
}

// Codes of one part as they are packed: nibbles, then `upper_bits` (0, 1 or 2) of each code. Returns the bytes written.
inline int pack_part(const std::uint8_t* codes, int upper_bits, std::byte* out) {
  for (int j = 0; j < 16; ++j) out[j] = static_cast<std::byte>((codes[j] & 15) | (codes[j + 16] & 15) << 4);
  const int bytes = 4 * upper_bits;
  for (int i = 0; i < bytes; ++i) {
    int bits = 0;
    const int per_byte = 8 / upper_bits;
    for (int t = 0; t < per_byte; ++t) bits |= codes[4 * per_byte * (i / 4) + 4 * t + i % 4] >> 4 << (upper_bits * t);
    out[16 + i] = static_cast<std::byte>(bits);
  }
  return 16 + bytes;
}

// A block of 256 stored elements.
inline void stored_super_block(WeightFormat format, const std::byte* data, std::byte* codes, std::byte* scales) {
  const auto* block = reinterpret_cast<const std::uint8_t*>(data);
  const auto codes_of = format == WeightFormat::q4_k ? blocks::q4_k_codes : format == WeightFormat::q5_k ? blocks::q5_k_codes : blocks::q6_k_codes;
  const int upper_bits = format == WeightFormat::q4_k ? 0 : format == WeightFormat::q5_k ? 1 : 2;
  for (int p = 0; p < blocks::kSuperParts; ++p) {
    std::uint8_t part[32];
    codes_of(block, p, part);
    codes += pack_part(part, upper_bits, codes);
  }
  if (format == WeightFormat::q6_k) {
    std::memcpy(scales, data + blocks::kQ6kD, 2);
    std::memcpy(scales + 2, data + blocks::kQ6kScales, 16);
    return;
  }
  std::memcpy(scales, data, 4);
  for (int p = 0; p < blocks::kSuperParts; ++p) {
    const auto pair = blocks::scale_pair(block + blocks::kQ4kPairs, p);
    scales[4 + 2 * p] = static_cast<std::byte>(pair.scale);
    scales[5 + 2 * p] = static_cast<std::byte>(pair.min);
  }
}

// The scales of codes that count halves, exact in half precision.
inline void stored_nvfp4(const std::byte* data, std::byte* codes, std::byte* scales) {
  const auto* block = reinterpret_cast<const std::uint8_t*>(data);
  for (int sub = 0; sub < 4; ++sub) {
    const std::uint16_t scale = blocks::float_to_f16(blocks::ue4m3_to_float(block[sub]) / 2);
    std::memcpy(scales + 2 * sub, &scale, 2);
  }
  const auto code = [&](int sub, int j) { return j < 8 ? block[4 + 8 * sub + j] & 15 : block[4 + 8 * sub + j - 8] >> 4; };
  for (int j = 0; j < 32; ++j) codes[j] = static_cast<std::byte>(code(j / 16 * 2, j % 16) | code(j / 16 * 2 + 1, j % 16) << 4);
}

// Most bytes of codes and of scales that a row's block has.
inline constexpr int kMaxPackedCodes = 192;
inline constexpr int kMaxPackedScales = 20;

// The codes of a stored block as they are packed, and its scales. `data` is the block, `scale` its byte where scales lie apart.
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
  } else if (format == WeightFormat::q4_k || format == WeightFormat::q5_k || format == WeightFormat::q6_k) {
    stored_super_block(format, data, codes, packed_scale);
  } else if (format == WeightFormat::nvfp4) {
    stored_nvfp4(data, codes, packed_scale);
  } else {
    const std::size_t scale_bytes = format == WeightFormat::q4_1 ? 4 : 2;
    std::memcpy(packed_scale, data, scale_bytes);
    std::memcpy(codes, data + scale_bytes, static_cast<std::size_t>(code_bytes));
  }
}

// A task is one group of eight rows. Four bytes at a time: loading is bound by memory and by reading the file.
void pack(const PackArgs& a, device::Worker& w) {
  const WeightView to = packed_shape(a.from, a.interleaved);
  const WeightFormatTraits& stored = traits(a.from.format);
  const WeightFormatTraits& packed = traits(to.format);
  const std::int64_t blocks = to.cols / packed.block;
  const std::int64_t groups = to.expert_stride / to.row_stride / 8;
  const std::int64_t group_bytes = blocks * 8 * packed.block_bytes;
  const std::int64_t scale_group_bytes = blocks * 8 * packed.scale_bytes;
  for (std::int64_t task = w.claim(); task < groups * a.rows; task = w.claim()) {
    const std::int64_t e = task / groups;
    const std::int64_t group = task % groups;
    std::byte* data = a.data.get() + e * to.expert_stride + group * 8 * to.row_stride;
    std::byte* scales = a.scales.get() + e * to.scale_expert_stride + group * 8 * to.scale_row_stride;
    const std::int64_t rows = a.from.rows - group * 8 < 8 ? a.from.rows - group * 8 : 8;
    if (rows < 8) {
      std::memset(data, 0, static_cast<std::size_t>(group_bytes));
      std::memset(scales, 0, static_cast<std::size_t>(scale_group_bytes));
    }
    for (std::int64_t j = 0; j < rows; ++j) {
      const std::int64_t row = group * 8 + j;
      const std::byte* from = a.from.data.get() + e * a.from.expert_stride + row * a.from.row_stride;
      const std::byte* from_scales =
          a.from.scales ? a.from.scales.get() + e * a.from.scale_expert_stride + row * a.from.scale_row_stride : nullptr;
      for (std::int64_t b = 0; b < blocks; ++b) {
        std::byte codes[kMaxPackedCodes];
        std::byte row_scales[kMaxPackedScales];
        stored_codes(a.from.format, from + b * stored.block_bytes, from_scales == nullptr ? nullptr : from_scales + b,
                     packed.block_bytes, codes, row_scales);
        std::byte* to_scales = scales + b * 8 * packed.scale_bytes;
        for (int i = 0; i < packed.scale_bytes;) {
          const int width = i < 2 * packed.scale_halves ? 2 : 1;
          std::memcpy(to_scales + i * 8 + j * width, row_scales + i, static_cast<std::size_t>(width));
          i += width;
        }
        std::byte* out = data + b * 8 * packed.block_bytes + j * 4;
        for (int i = 0; i < packed.block_bytes; i += 4) std::memcpy(out + i * 8, codes + i, 4);
      }
    }
  }
}

}  // namespace plumb::kernels::cpu::PLUMB_CPU_ISA
