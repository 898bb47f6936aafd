// The examples of docs/RECIPES.md, compiled and run, so that a recipe cannot go stale.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "device/cpu/cpu_queue.h"
#include "format/safetensors_writer.h"
#include "kernels/bind.h"
#include "kv/layout.h"
#include "model/decoder.h"
#include "recipes/scale_op.h"
#include "recipes/tiny_family.h"

namespace plumb {
namespace {

TEST(Recipes, AnOpAndItsKernelRunOnAQueueAndAgreeWithTheReference) {
  std::vector<float> in(1000);
  std::vector<float> out(in.size());
  std::vector<float> expected(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i) - 500;
  recipes::ScaleArgs args{.out = kernels::host_ref(out.data()), .in = kernels::host_ref<const float>(in.data()), .factor = 3, .cols = 100, .rows = 10};
  ASSERT_TRUE(recipes::kScale.check(&args).ok());

  auto queue = device::open_cpu_queue({.threads = 2}).value();
  auto buffer = queue->begin({}).value();
  ASSERT_TRUE(buffer->launch({.kernel = &recipes::kF32Scale, .args = &args, .args_bytes = recipes::kScale.args_bytes,
                              .cost = recipes::kScale.cost(&args), .tag = {"scale"}}).ok());
  ASSERT_TRUE(queue->submit(std::move(buffer)).wait().ok());

  args.out = kernels::host_ref(expected.data());
  recipes::kScale.reference(&args);
  EXPECT_EQ(out, expected);

  args.cols = 0;
  EXPECT_EQ(recipes::kScale.check(&args).error().field, "cols");
  int operands = 0;
  recipes::kScale.operands(&args, [&](const kernels::OperandInfo&, std::uint64_t&, kernels::SlotId) { ++operands; });
  EXPECT_EQ(operands, 2);
}

// A checkpoint of the recipe's family, written and read like any other.
class TinyFamily : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "plumb_recipe";
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ + "/config.json")
        << R"({"model_type":"tiny","n_vocab":16,"width":8,"depth":2,"head_width":8,"ffn_width":16,"window":4})";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(bool with_stray_tensor) {
    std::vector<format::TensorDecl> tensors{{"embed", DType::f32, {16, 8}}, {"norm", DType::f32, {8}}};
    for (const std::string layer : {"layer.0.", "layer.1."}) {
      for (const char* norm : {"norm1", "norm2"}) tensors.push_back({layer + norm, DType::f32, {8}});
      for (const char* square : {"q", "k", "v", "o"}) tensors.push_back({layer + square, DType::f32, {8, 8}});
      tensors.push_back({layer + "gate", DType::f32, {16, 8}});
      tensors.push_back({layer + "up", DType::f32, {16, 8}});
      tensors.push_back({layer + "down", DType::f32, {8, 16}});
    }
    if (with_stray_tensor) tensors.push_back({"stray", DType::f32, {1}});
    auto writer = format::create_safetensors(folder_ + "/model.safetensors", {}, tensors);
    ASSERT_TRUE(writer.ok()) << writer.error().to_string();
    for (const auto& t : tensors) {
      const std::vector<float> values(t.bytes() / 4, 0.1F);
      ASSERT_TRUE(writer->append_tensor(t.name, std::as_bytes(std::span(values))).ok());
    }
    ASSERT_TRUE(writer->finish().ok());
  }

  std::string folder_;
};

TEST_F(TinyFamily, AnArchitectureReadsLowersAndValidates) {
  write(false);
  const auto checkpoint = format::Checkpoint::open(folder_).value();
  const auto config = model::read_config(checkpoint).value();
  const auto spec = recipes::kTiny.read_spec(checkpoint, config);
  ASSERT_TRUE(spec.ok()) << spec.error().to_string();
  EXPECT_EQ(spec->layers.size(), 2U);
  auto weights = recipes::kTiny.read_weights(checkpoint, *spec);
  ASSERT_TRUE(weights.ok()) << weights.error().to_string();
  const auto layout = kv::plan_kv(*spec, {.context = 64, .sequences = 1, .chunk_rows = 8}).value();
  const auto lowered = model::lower(*spec, std::move(*weights), layout.geometry(), {.max_rows = 8, .max_logit_rows = 1, .sequences = 1});
  ASSERT_TRUE(lowered.ok()) << lowered.error().to_string();
  EXPECT_TRUE(kernels::validate(lowered->program).ok());
}

TEST_F(TinyFamily, ATensorNobodyAskedForIsAnError) {
  write(true);
  const auto checkpoint = format::Checkpoint::open(folder_).value();
  const auto spec = recipes::kTiny.read_spec(checkpoint, model::read_config(checkpoint).value()).value();
  const auto weights = recipes::kTiny.read_weights(checkpoint, spec);
  ASSERT_FALSE(weights.ok());
  EXPECT_EQ(weights.error().code, ErrorCode::unexpected_tensor);
  EXPECT_EQ(weights.error().field, "stray");
}

}  // namespace
}  // namespace plumb
