// The codecs against blocks that another program decoded (data/block_vectors.txt; tools/fixtures/block_vectors.py made it).
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "base/blocks.h"
#include "base/dtype.h"
#include "base/super_blocks.h"

namespace plumb::blocks {
namespace {

using Values = std::vector<float>;

Values decode(DType type, const std::uint8_t* block) {
  Values out(dtype_info(type).block_elements);
  switch (type) {
    case DType::q4_0: decode_q4_0(block, out.data()); break;
    case DType::q4_1: decode_q4_1(block, out.data()); break;
    case DType::q8_0: decode_q8_0(block, out.data()); break;
    case DType::iq4_nl: decode_iq4_nl(block, out.data()); break;
    case DType::mxfp4: decode_mxfp4(block, out.data()); break;
    case DType::nvfp4:
      for (int p = 0; p < 2; ++p) decode_nvfp4(block, p, out.data() + 32 * p);
      break;
    default:
      for (int p = 0; p < kSuperParts; ++p) {
        auto* part = type == DType::q4_k ? decode_q4_k : type == DType::q5_k ? decode_q5_k : decode_q6_k;
        part(block, p, out.data() + 32 * p);
      }
  }
  return out;
}

unsigned hex(const std::string& digits, std::size_t at, std::size_t count) {
  return static_cast<unsigned>(std::stoul(digits.substr(at, count), nullptr, 16));
}

TEST(BlockVectors, AreDecodedAsTheOtherProgramDid) {
  std::ifstream file(PLUMB_SOURCE_DIR "/src/base/data/block_vectors.txt");
  std::map<std::string, int> seen;
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string name, bytes, values;
    fields >> name >> bytes >> values;
    const auto type = dtype_from_name(name);
    ASSERT_TRUE(type.has_value()) << name;
    std::vector<std::uint8_t> block;
    for (std::size_t i = 0; i < bytes.size(); i += 2) block.push_back(static_cast<std::uint8_t>(hex(bytes, i, 2)));
    ASSERT_EQ(block.size(), dtype_info(*type).block_bytes) << name;
    const Values ours = decode(*type, block.data());
    ASSERT_EQ(values.size(), 8 * ours.size()) << name;
    for (std::size_t i = 0; i < ours.size(); ++i) {
      EXPECT_EQ(ours[i], std::bit_cast<float>(hex(values, 8 * i, 8))) << name << " element " << i;
    }
    ++seen[name];
  }
  EXPECT_EQ(seen.size(), 9U);
  for (const auto& [name, count] : seen) EXPECT_EQ(count, 2) << name;
}

TEST(SuperBlocks, WritingUndoesReading) {
  std::mt19937 random(3);
  const auto fill = [&](std::span<std::uint8_t> bytes) {
    for (std::uint8_t& b : bytes) b = static_cast<std::uint8_t>(random());
  };
  const auto taken_apart = [](const std::uint8_t* block, auto codes, MinBlock& out) {
    std::memcpy(&out.d, block, 2);
    std::memcpy(&out.dmin, block + 2, 2);
    for (int p = 0; p < kSuperParts; ++p) {
      out.pairs[p] = scale_pair(block + kQ4kPairs, p);
      codes(block, p, out.codes + 32 * p);
    }
  };
  for (int round = 0; round < 20; ++round) {
    std::array<std::uint8_t, kQ6kBytes> block{}, again{};
    MinBlock apart;
    fill(block);
    taken_apart(block.data(), q4_k_codes, apart);
    write_q4_k(apart, again.data());
    EXPECT_EQ(std::memcmp(block.data(), again.data(), kQ4kBytes), 0);
    taken_apart(block.data(), q5_k_codes, apart);
    write_q5_k(apart, again.data());
    EXPECT_EQ(std::memcmp(block.data(), again.data(), kQ5kBytes), 0);
    SixBitBlock six;
    std::memcpy(&six.d, block.data() + kQ6kD, 2);
    std::memcpy(six.scales, block.data() + kQ6kScales, 16);
    for (int p = 0; p < kSuperParts; ++p) q6_k_codes(block.data(), p, six.codes + 32 * p);
    write_q6_k(six, again.data());
    EXPECT_EQ(block, again);
  }
}

TEST(Nvfp4, ScalesAreFloatsOfEightBits) {
  EXPECT_EQ(ue4m3_to_float(0), 0.0F);
  EXPECT_EQ(ue4m3_to_float(1), 0x1p-9F);
  EXPECT_EQ(ue4m3_to_float(8), 0x1p-6F);
  EXPECT_EQ(ue4m3_to_float(0x38), 1.0F);
  EXPECT_EQ(ue4m3_to_float(0x7E), 448.0F);
  for (int s = 1; s < 0x7F; ++s) {
    EXPECT_GT(ue4m3_to_float(static_cast<std::uint8_t>(s)), ue4m3_to_float(static_cast<std::uint8_t>(s - 1)));
  }
  EXPECT_TRUE(std::isnan(ue4m3_to_float(0x7F)));
  EXPECT_TRUE(std::isnan(ue4m3_to_float(0x80)));
}

TEST(Nvfp4, FindsABlockWhoseScaleIsNone) {
  std::vector<std::uint8_t> blocks(5 * kNvfp4Bytes, 0xFF);  // codes may have any bits
  for (std::size_t b = 0; b < 5; ++b) std::memset(blocks.data() + b * kNvfp4Bytes, 0x7E, 4);
  EXPECT_FALSE(find_bad_nvfp4_block(blocks));
  blocks[3 * kNvfp4Bytes + 2] = 0x7F;
  EXPECT_EQ(find_bad_nvfp4_block(blocks), 3U);
  blocks[1 * kNvfp4Bytes + 3] = 0x80;
  EXPECT_EQ(find_bad_nvfp4_block(blocks), 1U);
  EXPECT_FALSE(find_bad_nvfp4_block({}));
}

}  // namespace
}  // namespace plumb::blocks
