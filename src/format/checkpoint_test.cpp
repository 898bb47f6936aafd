#include "format/checkpoint.h"

#include <gtest/gtest.h>

namespace plumb::format {
namespace {

const std::string kStory = PLUMB_SOURCE_DIR "/models/story";

TEST(Checkpoint, OpensTheBundledModel) {
  auto opened = Checkpoint::open(kStory);
  ASSERT_TRUE(opened.ok()) << opened.error().to_string();
  const Checkpoint& story = opened.value();
  EXPECT_EQ(story.container(), Container::safetensors);
  EXPECT_EQ(story.directory(), kStory);
  ASSERT_EQ(story.files().size(), 1U);
  EXPECT_EQ(story.files()[0].bytes, 13'269'976U);
  const TensorView* embedding = story.find("model.embed_tokens.weight");
  ASSERT_NE(embedding, nullptr);
  EXPECT_EQ(embedding->dtype, DType::bf16);
  EXPECT_EQ(embedding->shape, (std::vector<std::uint64_t>{4096, 256}));
  EXPECT_EQ(embedding->data.size(), 4096U * 256 * 2);
  const TensorView* blocks = story.find("model.layers.0.mlp.experts.gate_up_proj_blocks");
  ASSERT_NE(blocks, nullptr);
  EXPECT_EQ(blocks->shape, (std::vector<std::uint64_t>{8, 512, 8, 16}));
  const TensorView* scales = story.find("model.layers.0.mlp.experts.gate_up_proj_scales");
  ASSERT_NE(scales, nullptr);
  EXPECT_TRUE(reject_nan_scales(*scales, kStory).ok());
  EXPECT_EQ(story.find("no.such.tensor"), nullptr);
  EXPECT_EQ(story.require("no.such.tensor").error().code, ErrorCode::missing_tensor);
  EXPECT_EQ(*story.metadata().get<std::string>("format"), "pt");
  EXPECT_TRUE(story.verify_unchanged().ok());
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < story.tensors().size(); ++i) {
    bytes += story.tensors()[i].data.size();
    EXPECT_EQ(story.find(story.tensors()[i].name), &story.tensors()[i]);
  }
  EXPECT_EQ(bytes, story.total_tensor_bytes());
}

TEST(Checkpoint, OracleFilesOpenByFileName) {
  for (const char* name : {"/tests/oracle/story-oracle.safetensors", "/tests/oracle/story-oracle-long.safetensors"}) {
    auto opened = Checkpoint::open(std::string(PLUMB_SOURCE_DIR) + name);
    EXPECT_TRUE(opened.ok()) << opened.error().to_string();
  }
}

}  // namespace
}  // namespace plumb::format
