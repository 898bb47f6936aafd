#include <gtest/gtest.h>

#include <numeric>

#include "format/checkpoint.h"
#include "format/config.h"
#include "format/gguf_writer.h"
#include "format/safetensors_writer.h"
#include "format/test_files.h"

namespace plumb::format {
namespace {

std::vector<std::byte> pattern(std::uint64_t size, unsigned seed) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((i * 31 + seed * 7) & 0x7F);
  return bytes;
}

// Feeds every declared tensor in pieces of `piece` bytes.
void fill(TensorWriter& writer, std::size_t piece) {
  while (writer.current() < writer.tensors().size()) {
    const std::size_t index = writer.current();
    const auto data = pattern(writer.tensors()[index].bytes(), static_cast<unsigned>(index));
    for (std::size_t at = 0; at < data.size(); at += piece) {
      ASSERT_TRUE(writer.append(std::span(data).subspan(at, std::min(piece, data.size() - at))).ok());
    }
  }
}

void expect_same(const Checkpoint& opened, const std::vector<TensorDecl>& declared) {
  std::size_t filled = 0;
  ASSERT_EQ(opened.tensors().size(), declared.size());
  for (std::size_t i = 0; i < declared.size(); ++i, ++filled) {
    const TensorView* view = opened.find(declared[i].name);
    ASSERT_NE(view, nullptr) << declared[i].name;
    EXPECT_EQ(view->dtype, declared[i].dtype);
    EXPECT_EQ(view->shape, declared[i].shape);
    const auto expected = pattern(declared[i].bytes(), static_cast<unsigned>(i));
    ASSERT_EQ(view->data.size(), expected.size());
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), view->data.begin())) << declared[i].name;
  }
}

using WriterTest = ScratchTest;

TEST_F(WriterTest, GgufReadsBackAsWritten) {
  GgufKeys keys;
  keys.add_string("general.architecture", "gpt-oss");
  keys.add("gpt-oss.block_count", std::uint32_t{6});
  keys.add("gpt-oss.rope.freq_base", 150000.0F);
  keys.add("k.bool", true);
  keys.add("k.i8", std::int8_t{-8});
  keys.add("k.i64", std::int64_t{-1} << 40);
  keys.add("k.u64", ~std::uint64_t{0});
  keys.add("k.f64", 0.1);
  const std::vector<std::string_view> words = {"", "Ġthe", std::string_view("a\0b", 3)};
  keys.add_strings("tokenizer.ggml.tokens", words);
  const std::vector<std::int32_t> types = {1, -2, 3};
  keys.add_array<std::int32_t>("tokenizer.ggml.token_type", types);
  const std::vector<float> scores = {0.5F, -1.0F};
  keys.add_array<float>("tokenizer.ggml.scores", scores);
  keys.add_bools("gpt-oss.attention.sliding", {true, false, true});
  const std::vector<TensorDecl> declared = {{"a", DType::mxfp4, {3, 5, 64}}, {"b", DType::f32, {}},
                                            {"c", DType::q8_0, {7, 32}},     {"d", DType::bf16, {1, 1, 3}},
                                            {"e", DType::q4_0, {2, 64}},     {"f", DType::nvfp4, {64}}};
  auto writer = create_gguf(path("x.gguf"), keys, declared);
  ASSERT_TRUE(writer.ok()) << writer.error().to_string();
  fill(writer.value(), 100);
  ASSERT_TRUE(writer->finish().ok());

  auto opened = Checkpoint::open(path("x.gguf"));
  ASSERT_TRUE(opened.ok()) << opened.error().to_string();
  EXPECT_EQ(opened->container(), Container::gguf);
  expect_same(opened.value(), declared);
  for (const TensorView& tensor : opened->tensors()) EXPECT_EQ(tensor.offset % 32, 0U);
  const Metadata& meta = opened->metadata();
  EXPECT_EQ(*meta.get<std::string>("general.architecture"), "gpt-oss");
  EXPECT_EQ(*meta.get<std::uint64_t>("gpt-oss.block_count"), 6U);
  EXPECT_EQ(*meta.get<double>("gpt-oss.rope.freq_base"), 150000.0);
  EXPECT_TRUE(*meta.get<bool>("k.bool"));
  EXPECT_EQ(*meta.get<std::int64_t>("k.i8"), -8);
  EXPECT_EQ(*meta.get<std::int64_t>("k.i64"), std::int64_t{-1} << 40);
  EXPECT_EQ(*meta.get<std::uint64_t>("k.u64"), ~std::uint64_t{0});
  EXPECT_EQ(*meta.get<double>("k.f64"), 0.1);
  EXPECT_EQ(meta.get<bool>("k.f64"), nullptr);
  EXPECT_EQ(meta.get<MetaArray>("tokenizer.ggml.tokens")->strings().value(), words);
  EXPECT_EQ(meta.get<MetaArray>("tokenizer.ggml.token_type")->integers().value(),
            (std::vector<std::int64_t>{1, -2, 3}));
  EXPECT_EQ(meta.get<MetaArray>("tokenizer.ggml.scores")->doubles().value(), (std::vector<double>{0.5, -1.0}));
  EXPECT_EQ(meta.get<MetaArray>("gpt-oss.attention.sliding")->booleans().value(),
            (std::vector<bool>{true, false, true}));
  EXPECT_FALSE(meta.get<MetaArray>("tokenizer.ggml.tokens")->integers().ok());
  EXPECT_EQ(meta.entries()[1].type, MetaType::u32);

  auto config = Config::from_metadata(meta, "x.gguf");
  ASSERT_TRUE(config.ok()) << config.error().to_string();
  EXPECT_EQ(config->require_uint("gpt-oss.block_count", {1, 100}).value(), 6U);
  EXPECT_EQ(config->require_bools("gpt-oss.attention.sliding").value(), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(config->require_reals("tokenizer.ggml.scores").value(), (std::vector<double>{0.5, -1.0}));
}

TEST_F(WriterTest, SafetensorsReadsBackAsWritten) {
  const std::vector<TensorDecl> declared = {{"w", DType::f32, {3, 5}},
                                            {"empty", DType::f32, {0, 5}},
                                            {"s", DType::i64, {}},
                                            {"x\"é", DType::bf16, {7}},
                                            {"y", DType::u8, {3, 1, 2, 2}}};
  auto writer = create_safetensors(path("x.safetensors"), {{"by", "plumb"}}, declared);
  ASSERT_TRUE(writer.ok()) << writer.error().to_string();
  fill(writer.value(), 7);
  ASSERT_TRUE(writer->finish().ok());
  auto opened = Checkpoint::open(path("x.safetensors"));
  ASSERT_TRUE(opened.ok()) << opened.error().to_string();
  expect_same(opened.value(), declared);
  EXPECT_EQ(*opened->metadata().get<std::string>("by"), "plumb");
  EXPECT_EQ(opened->find("w")->offset % 8, 0U);
}

TEST_F(WriterTest, TheBundledModelCopiesToTheByte) {
  auto story = Checkpoint::open(PLUMB_SOURCE_DIR "/models/story");
  ASSERT_TRUE(story.ok());
  std::vector<TensorDecl> declared;
  for (const TensorView& tensor : story->tensors()) declared.push_back({tensor.name, tensor.dtype, tensor.shape});
  auto writer = create_safetensors(path("copy"), {{"format", "pt"}}, declared);
  ASSERT_TRUE(writer.ok());
  for (const TensorView& tensor : story->tensors()) ASSERT_TRUE(writer->append_tensor(tensor.name, tensor.data).ok());
  ASSERT_TRUE(writer->finish().ok());
  auto copy = Checkpoint::open(path("copy"));
  ASSERT_TRUE(copy.ok()) << "told apart by content, without an extension";
  for (const TensorView& tensor : story->tensors()) {
    const TensorView* other = copy->find(tensor.name);
    ASSERT_NE(other, nullptr);
    EXPECT_TRUE(std::equal(tensor.data.begin(), tensor.data.end(), other->data.begin(), other->data.end()))
        << tensor.name;
  }
}

TEST_F(WriterTest, WrongBytesAreRefusedAndNoFileIsLeft) {
  const std::vector<std::byte> ten(10);
  {
    auto writer = create_gguf(path("x.gguf"), {}, {{"a", DType::u8, {4}}});
    EXPECT_EQ(writer.error().code, ErrorCode::unsupported) << "GGUF has no u8 tensors";
    auto again = create_gguf(path("x.gguf"), {}, {{"a", DType::i8, {4}}, {"b", DType::i8, {4}}});
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again->append(ten).error().field, "a");
    EXPECT_EQ(again->append_tensor("b", std::span(ten).first(4)).error().code, ErrorCode::invalid_argument);
    EXPECT_TRUE(again->append_tensor("a", std::span(ten).first(4)).ok());
    EXPECT_TRUE(again->append(std::span(ten).first(3)).ok());
    EXPECT_EQ(again->finish().error().field, "b");
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(WriterTest, DeclarationsAreChecked) {
  const auto gguf = [&](std::vector<TensorDecl> tensors, const GgufKeys& keys = {}) {
    auto writer = create_gguf(path("x"), keys, std::move(tensors));
    return writer.ok() ? std::string("accepted")
                       : std::string(to_string(writer.error().code)) + " " + writer.error().field;
  };
  EXPECT_EQ(gguf({{"a", DType::f32, {1}}, {"a", DType::f32, {1}}}), "invalid_argument a");
  EXPECT_EQ(gguf({{"", DType::f32, {1}}}), "invalid_argument ");
  EXPECT_EQ(gguf({{std::string(64, 'n'), DType::f32, {1}}}), "limit_exceeded " + std::string(64, 'n'));
  EXPECT_EQ(gguf({{"a", DType::q8_0, {33}}}), "invalid_argument a");
  EXPECT_EQ(gguf({{"a", DType::f32, {1, 1, 1, 1, 1}}}), "limit_exceeded a");
  EXPECT_EQ(gguf({{"a", DType::f32, {0}}}), "invalid_argument a");
  EXPECT_EQ(gguf({{"a", DType::f32, {std::uint64_t{1} << 63}}}), "limit_exceeded a");
  GgufKeys keys;
  keys.add("k", std::uint32_t{1});
  keys.add("k", std::uint32_t{2});
  EXPECT_EQ(gguf({}, keys), "invalid_argument k");
  GgufKeys alignment;
  alignment.add("general.alignment", std::uint32_t{64});
  EXPECT_EQ(gguf({}, alignment), "invalid_argument general.alignment");
  auto mxfp4 = create_safetensors(path("x"), {}, {{"a", DType::mxfp4, {32}}});
  EXPECT_EQ(mxfp4.error().code, ErrorCode::unsupported);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

}  // namespace
}  // namespace plumb::format
