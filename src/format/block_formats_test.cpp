// GGUF tensors of every block type: what fits, what is short, what does not divide, and scales that are none.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "format/checkpoint.h"
#include "format/test_files.h"

namespace plumb::format {
namespace {

std::string one_tensor(std::uint64_t cols, std::uint64_t rows, DType type, std::size_t data) {
  return gguf_head(1, 0)
      .str("t")
      .u32(2)
      .u64(cols)
      .u64(rows)
      .u32(static_cast<std::uint32_t>(dtype_info(type).ggml_id))
      .u64(0)
      .align(32)
      .zeros(data);
}

std::vector<DType> block_types() {
  std::vector<DType> types;
  for (const DTypeInfo& row : dtype_table()) {
    if (row.ggml_id >= 0 && row.block_elements > 1) types.push_back(row.type);
  }
  return types;
}

class BlockFormats : public ScratchTest {};

TEST_F(BlockFormats, AreAsLongAsTheirBlocks) {
  for (const DType type : block_types()) {
    const DTypeInfo& info = dtype_info(type);
    const std::size_t bytes = std::size_t{3} * 2 * info.block_bytes;
    const auto opened = Checkpoint::open(write("whole.gguf", one_tensor(2 * info.block_elements, 3, type, bytes)));
    ASSERT_TRUE(opened.ok()) << info.name << ": " << opened.error().to_string();
    EXPECT_EQ(opened->tensors()[0].data.size(), bytes) << info.name;
    EXPECT_EQ(opened->tensors()[0].dtype, type);
    const auto cut = Checkpoint::open(write("cut.gguf", one_tensor(2 * info.block_elements, 3, type, bytes - 1)));
    ASSERT_FALSE(cut.ok()) << info.name;
    EXPECT_EQ(cut.error().code, ErrorCode::truncated) << cut.error().to_string();
  }
}

TEST_F(BlockFormats, RowsMustBeWholeBlocks) {
  for (const DType type : block_types()) {
    const DTypeInfo& info = dtype_info(type);
    for (const std::uint64_t cols : {std::uint64_t{1}, std::uint64_t{info.block_elements} / 2, std::uint64_t{info.block_elements} * 3 / 2}) {
      // Enough rows that the elements together are whole blocks.
      const auto opened = Checkpoint::open(write("odd.gguf", one_tensor(cols, info.block_elements, type, 1 << 20)));
      ASSERT_FALSE(opened.ok()) << info.name << " " << cols;
      EXPECT_EQ(opened.error().code, ErrorCode::malformed) << opened.error().to_string();
      EXPECT_EQ(opened.error().field, "t") << opened.error().to_string();
    }
  }
}

TEST_F(BlockFormats, Nvfp4ScalesAreNumbers) {
  const std::string good = one_tensor(128, 2, DType::nvfp4, 4 * 36);
  const std::size_t data = good.size() - 4 * 36;
  EXPECT_TRUE(reject_nan_scales(Checkpoint::open(write("good.gguf", good))->tensors()[0], "good").ok());
  for (const char bad : {'\x7f', '\x80', '\xff'}) {
    std::string file = good;
    file[data + 2 * 36 + 3] = bad;
    auto opened = Checkpoint::open(write("bad.gguf", file));
    ASSERT_TRUE(opened.ok());
    const Status status = reject_nan_scales(opened->tensors()[0], "bad.gguf");
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().to_string(), "malformed: bad.gguf: t: block scale is NaN or negative (found block 2)");
  }
}

}  // namespace
}  // namespace plumb::format
