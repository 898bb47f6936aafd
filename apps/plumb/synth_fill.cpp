#include "synth_fill.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/blocks.h"
#include "base/check.h"
#include "base/counter_rng.h"
#include "base/hash.h"

namespace plumb::app {
namespace {

// High halves of the counter: one stream for elements, one for block scales.
constexpr std::uint64_t kElements = 0;
constexpr std::uint64_t kScales = 1;

std::uint8_t* bytes_of(std::span<std::byte> out) { return reinterpret_cast<std::uint8_t*>(out.data()); }

// Word i of the stream, for i in [first, first + count), given to put(i, word).
template <class Put>
void for_words(std::uint64_t key, std::uint64_t stream, std::uint64_t first, std::uint64_t count, const Put& put) {
  const Philox random{key};
  std::uint64_t at = first;
  const std::uint64_t end = first + count;
  while (at < end) {
    const auto words = random.block(at / 4, stream);
    for (std::uint64_t lane = at % 4; lane < 4 && at < end; ++lane, ++at) put(at, words[lane]);
  }
}

// [0, 1)
float unit(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1.0p-24F; }

void store(DType type, float value, std::uint8_t* out) {
  const std::uint16_t rounded = blocks::float_to_bf16(value);
  if (type == DType::bf16) {
    std::memcpy(out, &rounded, 2);
    return;
  }
  const float widened = blocks::bf16_to_float(rounded);
  if (type == DType::f16) {
    const std::uint16_t half = blocks::float_to_f16(widened);
    std::memcpy(out, &half, 2);
    return;
  }
  PLUMB_CHECK(type == DType::f32);
  std::memcpy(out, &widened, 4);
}

// A scale byte is one of two neighbouring powers of two, drawn so that the mean square comes out as asked.
struct Mxfp4Scales {
  std::uint8_t low = 127;
  float high_share = 0;  // of blocks with scale low + 1

  explicit Mxfp4Scales(float rms) {
    // Root mean square of the 16 codes drawn evenly: sqrt(8.5625).
    const double scale = static_cast<double>(rms) / std::sqrt(8.5625);
    const double exponent = std::floor(std::log2(scale));
    const double square = scale * scale / std::exp2(2 * exponent);  // in [1, 4)
    high_share = static_cast<float>((square - 1) / 3);
    low = static_cast<std::uint8_t>(std::clamp(exponent + 127, 1.0, 253.0));
  }
  std::uint8_t pick(std::uint32_t word) const { return static_cast<std::uint8_t>(low + (unit(word) < high_share ? 1 : 0)); }
};

// A block's 16 code bytes in ggml order.
void mxfp4_codes(const Philox& random, std::uint64_t block, std::uint8_t* out) {
  const auto words = random.block(block, kElements);
  std::memcpy(out, words.data(), blocks::kMxfp4CodeBytes);
}

void fill_mxfp4(std::uint64_t key, const Mxfp4Scales& scales, std::uint64_t first, std::uint64_t count, std::uint8_t* out) {
  const Philox random{key};
  for_words(key, kScales, first, count, [&](std::uint64_t block, std::uint32_t word) {
    std::uint8_t* at = out + (block - first) * blocks::kMxfp4Bytes;
    at[0] = scales.pick(word);
    mxfp4_codes(random, block, at + 1);
  });
}

// The f16 scale of a q8_0 or q4_0 block: `scale` give or take a quarter.
std::uint16_t jittered(float scale, std::uint32_t word) { return blocks::float_to_f16(scale * (0.75F + 0.5F * unit(word))); }
constexpr float kJitterRms = 1.0104F;  // root mean square of that factor, sqrt(1 + 1/48)

void fill_q8_0(std::uint64_t key, float scale, std::uint64_t first, std::uint64_t count, std::uint8_t* out) {
  const Philox random{key};
  for_words(key, kScales, first, count, [&](std::uint64_t block, std::uint32_t word) {
    std::uint8_t* at = out + (block - first) * blocks::kQ8Bytes;
    const std::uint16_t half = jittered(scale, word);
    std::memcpy(at, &half, 2);
    std::array<std::int8_t, 32> codes;
    for (std::uint64_t part = 0; part < 2; ++part) {
      const auto words = random.block(block * 2 + part, kElements);
      std::memcpy(codes.data() + part * 16, words.data(), 16);
    }
    for (std::int8_t& code : codes) code = std::max<std::int8_t>(code, -127);  // as encoders write it: symmetric
    std::memcpy(at + 2, codes.data(), 32);
  });
}

// Code bytes with nibble 0 (which stands for -8) replaced by 8 (which stands for 0), so that the mean is 0.
constexpr std::array<std::uint8_t, 256> kSymmetricNibbles = [] {
  std::array<std::uint8_t, 256> table{};
  for (unsigned byte = 0; byte < 256; ++byte) {
    const unsigned low = byte % 16 == 0 ? 8 : byte % 16;
    const unsigned high = byte / 16 == 0 ? 8 : byte / 16;
    table[byte] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return table;
}();

void fill_q4_0(std::uint64_t key, float scale, std::uint64_t first, std::uint64_t count, std::uint8_t* out) {
  const Philox random{key};
  for_words(key, kScales, first, count, [&](std::uint64_t block, std::uint32_t word) {
    std::uint8_t* at = out + (block - first) * blocks::kQ4Bytes;
    const std::uint16_t half = jittered(scale, word);
    std::memcpy(at, &half, 2);
    mxfp4_codes(random, block, at + 2);
    for (int i = 2; i < blocks::kQ4Bytes; ++i) at[i] = kSymmetricNibbles[at[i]];
  });
}

}  // namespace

std::uint64_t role_key(std::uint64_t seed, std::string_view role) { return hash64(role, seed); }

FillFn uniform_fill(std::uint64_t key, DType type, float center, float spread) {
  const std::uint64_t size = dtype_info(type).block_bytes;
  return [=](std::uint64_t offset, std::span<std::byte> out) {
    const std::uint64_t first = offset / size;
    for_words(key, kElements, first, out.size() / size, [&](std::uint64_t i, std::uint32_t word) {
      store(type, center + spread * (2 * unit(word) - 1), bytes_of(out) + (i - first) * size);
    });
  };
}

FillFn block_fill(std::uint64_t key, DType type, float rms) {
  switch (type) {
    case DType::mxfp4:
      return [key, scales = Mxfp4Scales(rms)](std::uint64_t offset, std::span<std::byte> out) {
        fill_mxfp4(key, scales, offset / blocks::kMxfp4Bytes, out.size() / blocks::kMxfp4Bytes, bytes_of(out));
      };
    case DType::q8_0:
      // Root mean square of a code drawn evenly from [-127, 127] with -127 twice: 73.9.
      return [key, scale = rms / (73.9F * kJitterRms)](std::uint64_t offset, std::span<std::byte> out) {
        fill_q8_0(key, scale, offset / blocks::kQ8Bytes, out.size() / blocks::kQ8Bytes, bytes_of(out));
      };
    case DType::q4_0:
      // Root mean square of a code drawn evenly from [-7, 7] with 0 twice: sqrt(17.5).
      return [key, scale = rms / (4.183F * kJitterRms)](std::uint64_t offset, std::span<std::byte> out) {
        fill_q4_0(key, scale, offset / blocks::kQ4Bytes, out.size() / blocks::kQ4Bytes, bytes_of(out));
      };
    default:
      PLUMB_CHECK(!"a block type that synth writes");
  }
}

FillFn matrix_fill(std::uint64_t key, DType type, float rms) {
  // A uniform distribution's root mean square is its half width over sqrt(3).
  if (dtype_info(type).block_elements == 1) return uniform_fill(key, type, 0, rms * 1.7320508F);
  return block_fill(key, type, rms);
}

FillFn hf_codes_fill(const HfExperts& experts) {
  return [experts](std::uint64_t offset, std::span<std::byte> out) {
    const std::uint64_t row_bytes = experts.row_blocks * blocks::kMxfp4CodeBytes;
    const std::uint64_t ways = experts.second != 0 ? 2 : 1;
    std::uint8_t* at = bytes_of(out);
    for (std::uint64_t row = offset / row_bytes; row < (offset + out.size()) / row_bytes; ++row) {
      const Philox random{row % ways == 0 ? experts.first : experts.second};
      for (std::uint64_t i = 0; i < experts.row_blocks; ++i, at += blocks::kMxfp4CodeBytes) {
        std::array<std::uint8_t, blocks::kMxfp4CodeBytes> codes;
        mxfp4_codes(random, row / ways * experts.row_blocks + i, codes.data());
        blocks::renibble_ggml_to_hf(codes.data(), at);
      }
    }
  };
}

FillFn hf_scales_fill(const HfExperts& experts) {
  return [experts, scales = Mxfp4Scales(experts.rms)](std::uint64_t offset, std::span<std::byte> out) {
    const std::uint64_t ways = experts.second != 0 ? 2 : 1;
    std::uint8_t* at = bytes_of(out);
    for (std::uint64_t row = offset / experts.row_blocks; row < (offset + out.size()) / experts.row_blocks; ++row) {
      const std::uint64_t first = row / ways * experts.row_blocks;
      for_words(row % ways == 0 ? experts.first : experts.second, kScales, first, experts.row_blocks,
                [&](std::uint64_t, std::uint32_t word) { *at++ = scales.pick(word); });
    }
  };
}

FillFn interleaved_fill(std::uint64_t first, std::uint64_t second, DType type, float center, float spread) {
  const std::uint64_t size = dtype_info(type).block_bytes;
  return [=](std::uint64_t offset, std::span<std::byte> out) {
    const std::uint64_t begin = offset / (2 * size);
    const std::uint64_t count = out.size() / (2 * size);
    for (std::uint64_t way = 0; way < 2; ++way) {
      for_words(way == 0 ? first : second, kElements, begin, count, [&](std::uint64_t i, std::uint32_t word) {
        store(type, center + spread * (2 * unit(word) - 1), bytes_of(out) + ((i - begin) * 2 + way) * size);
      });
    }
  };
}

}  // namespace plumb::app
