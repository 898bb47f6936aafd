// Every truncation and every single flipped bit of small valid files: the reader answers with an error or with a
// checkpoint whose every byte, name and array can be read. Sanitizers watch.
#include <gtest/gtest.h>

#include "base/printable.h"
#include "format/checkpoint.h"
#include "format/config.h"
#include "format/gguf_writer.h"
#include "format/safetensors_writer.h"
#include "format/test_files.h"

namespace plumb::format {
namespace {

class MutationTest : public ScratchTest {
 protected:
  // Reads everything a consumer could read. Returns whether the file was accepted.
  static bool exercise(const std::string& file) {
    const auto opened = Checkpoint::open(file);
    if (!opened.ok()) {
      EXPECT_EQ(opened.error().subject, file);
      EXPECT_TRUE(is_utf8(opened.error().to_string()));
      return false;
    }
    std::uint64_t sum = 0;
    for (const TensorView& tensor : opened->tensors()) {
      EXPECT_EQ(tensor_bytes(tensor.dtype, tensor.shape), tensor.data.size());
      EXPECT_LE(tensor.offset + tensor.data.size(), opened->files()[tensor.file].bytes);
      EXPECT_EQ(opened->find(tensor.name), &tensor);
      for (const std::byte b : tensor.data) sum += static_cast<std::uint64_t>(b);
    }
    for (const MetaEntry& entry : opened->metadata().entries()) {
      sum += describe(entry.value).size();
      if (const auto* array = std::get_if<MetaArray>(&entry.value)) {
        const auto strings = array->strings();
        if (strings.ok()) {
          for (const auto text : strings.value()) sum += is_utf8(text) ? 1 : 0;
        }
        sum += array->integers().ok() ? 1U : 0U;
        sum += array->doubles().ok() ? 1U : 0U;
        sum += array->booleans().ok() ? 1U : 0U;
      }
    }
    sum += Config::from_metadata(opened->metadata(), file).ok() ? 1U : 0U;
    return sum != UINT64_MAX;
  }

  // Accepted truncations and flips of `content`.
  std::pair<int, int> sweep(const std::string& name, const std::string& content, std::size_t header_bytes) {
    int cut = 0;
    int flipped = 0;
    for (std::size_t length = 0; length < content.size(); ++length)
      cut += exercise(write(name, content.substr(0, length))) ? 1 : 0;
    for (std::size_t bit = 0; bit < header_bytes * 8; ++bit) {
      std::string changed = content;
      changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
      flipped += exercise(write(name, changed)) ? 1 : 0;
    }
    return {cut, flipped};
  }
};

TEST_F(MutationTest, Gguf) {
  GgufKeys keys;
  keys.add_string("general.architecture", "x");
  keys.add("x.n", std::uint32_t{3});
  const std::vector<std::string_view> words = {"a", "bc"};
  keys.add_strings("tok", words);
  const std::vector<std::int32_t> numbers = {1, 2};
  keys.add_array<std::int32_t>("num", numbers);
  keys.add_bools("flags", {true, false});
  auto writer = create_gguf(path("valid"), keys, {{"w", DType::mxfp4, {2, 32}}, {"b", DType::f32, {3}}});
  ASSERT_TRUE(writer.ok());
  const std::vector<std::byte> data(64, std::byte{1});
  ASSERT_TRUE(writer->append(std::span(data).first(34)).ok());
  ASSERT_TRUE(writer->append(std::span(data).first(12)).ok());
  ASSERT_TRUE(writer->finish().ok());
  const std::string content = read(path("valid"));
  ASSERT_TRUE(exercise(path("valid")));
  const auto [cut, flipped] = sweep("x.gguf", content, content.size() - 96);
  EXPECT_EQ(cut, 20) << "only the padding after the last tensor may be missing";
  EXPECT_GT(flipped, 0) << "a changed value is a valid file";
  EXPECT_LT(flipped, static_cast<int>(content.size()) * 8 / 2);
}

TEST_F(MutationTest, Safetensors) {
  auto writer = create_safetensors(path("valid"), {{"k", "v"}}, {{"w", DType::f32, {2, 3}}, {"b", DType::u8, {5}}});
  ASSERT_TRUE(writer.ok());
  const std::vector<std::byte> data(24, std::byte{1});
  ASSERT_TRUE(writer->append(data).ok());
  ASSERT_TRUE(writer->append(std::span(data).first(5)).ok());
  ASSERT_TRUE(writer->finish().ok());
  const std::string content = read(path("valid"));
  ASSERT_TRUE(exercise(path("valid")));
  const auto [cut, flipped] = sweep("x.safetensors", content, content.size() - 29);
  EXPECT_EQ(cut, 0);
  EXPECT_GT(flipped, 0) << "a changed letter of a name is a valid file";
}

TEST_F(MutationTest, Index) {
  write("a.safetensors", safetensors_bytes(R"({"t":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4));
  const std::string content = R"({"metadata":{"total_size":4},"weight_map":{"t":"a.safetensors"}})";
  for (std::size_t bit = 0; bit < content.size() * 8; ++bit) {
    std::string changed = content;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    const auto opened = Checkpoint::open(write("model.safetensors.index.json", changed));
    if (opened.ok()) {
      EXPECT_EQ(opened->tensors().size(), 1U);
    }
  }
  EXPECT_TRUE(Checkpoint::open(write("model.safetensors.index.json", content)).ok());
}

}  // namespace
}  // namespace plumb::format
