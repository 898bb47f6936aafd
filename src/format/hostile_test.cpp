// Hostile checkpoints: each is generated here, must be refused with the stated code, must name the field, and may not
// make the reader allocate more than a constant times the file's own size.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "base/printable.h"
#include "format/allocation_meter.h"
#include "format/checkpoint.h"
#include "format/test_files.h"

namespace plumb::format {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

// What opening may take at its peak. Measured: 12 bytes per byte of file on the worst of this list, a table of one-byte
// keys (an entry and the growth of its vector against 17 bytes in the file), and under 5 KB for the small files. JSON's
// worst case (a list of empty lists) takes 26 and is held to its own factor in MemoryOfJsonIsLinear.
constexpr std::size_t kBytesPerFileByte = 24;
constexpr std::size_t kFixedBytes = 16 << 10;

struct Case {
  const char* name;
  ErrorCode code;
  const char* field;
  std::string bytes;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class HostileFile : public ScratchTest, public ::testing::WithParamInterface<Case> {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("plumb_hostile_" + std::to_string(::getpid()) + "_" + GetParam().name);
    std::filesystem::create_directories(folder_);
  }
  void expect_refused(const std::string& file) const {
    reset_heap_peak();
    const std::size_t before = live_heap_bytes();
    const auto opened = Checkpoint::open(file);
    const std::size_t used = peak_heap_bytes() - before;
    ASSERT_FALSE(opened.ok()) << "accepted";
    const Error& error = opened.error();
    EXPECT_EQ(to_string(error.code), to_string(GetParam().code)) << error.to_string();
    EXPECT_EQ(error.field, GetParam().field) << error.to_string();
    EXPECT_EQ(error.subject, file) << error.to_string();
    EXPECT_TRUE(is_utf8(error.to_string()));
    EXPECT_LT(error.to_string().size(), file.size() + 600);
    EXPECT_LE(used, kBytesPerFileByte * GetParam().bytes.size() + kFixedBytes);
  }
};

// ---- GGUF
// -------------------------------------------------------------------------------------------------------------

// A file with one u32 key "a" and a tensor table given by `tensors`.
Bytes one_key(std::uint64_t tensors) { return gguf_head(tensors, 1).str("a").u32(4).u32(7); }

Bytes alignment_file(std::uint32_t type, const std::function<void(Bytes&)>& value) {
  Bytes b = gguf_head(0, 1).str("general.alignment").u32(type);
  value(b);
  return b.zeros(64);
}

// One tensor "t" with these dimensions (innermost first), type and offset, and data bytes.
std::string one_tensor(const std::vector<std::uint64_t>& dims, std::uint32_t type, std::uint64_t offset,
                       std::size_t data) {
  Bytes b = gguf_head(1, 0).str("t").u32(static_cast<std::uint32_t>(dims.size()));
  for (const std::uint64_t dim : dims) b.u64(dim);
  return b.u32(type).u64(offset).align(32).zeros(data);
}

// Two f32[8] tensors, the second at `offset`; both would fit at 0 and 32.
std::string two_tensors(std::uint64_t offset, std::size_t data, const char* second = "u") {
  return gguf_head(2, 0)
      .str("t")
      .u32(1)
      .u64(8)
      .u32(0)
      .u64(0)
      .str(second)
      .u32(1)
      .u64(8)
      .u32(0)
      .u64(offset)
      .align(32)
      .zeros(data);
}

// Two i8 tensors of this many elements each: padded, their sizes would sum to more than 64 bits hold.
std::string wrapping_sum() {
  const std::uint64_t half = std::uint64_t{1} << 39;
  return gguf_head(2, 0)
      .str("t")
      .u32(1)
      .u64(half)
      .u32(24)
      .u64(0)
      .str("u")
      .u32(1)
      .u64(half)
      .u32(24)
      .u64(half)
      .align(32)
      .zeros(64);
}

// clang-format off: one case a line
std::vector<Case> gguf_cases() {
  using E = ErrorCode;
  std::vector<Case> cases = {
      {"EmptyFile", E::truncated, "", ""},
      {"MagicOnly", E::truncated, "version", "GGUF"},
      {"WrongMagic", E::malformed, "magic", "NOPE" + std::string(60, '\1')},
      {"ByteSwappedMagic", E::unsupported, "magic", "FUGG" + std::string(60, '\0')},
      {"VersionOne", E::unsupported, "version", gguf_head(0, 0, 1)},
      {"VersionFour", E::unsupported, "version", gguf_head(0, 0, 4)},
      {"VersionZero", E::unsupported, "version", gguf_head(0, 0, 0)},
      {"BigEndianVersion", E::unsupported, "version", gguf_head(0, 0, 0x03000000)},
      {"KeyCountMax", E::truncated, "metadata_kv_count", gguf_head(0, kMax)},
      {"KeyCountAboveRoom", E::truncated, "metadata_kv_count", gguf_head(0, 1000).zeros(100)},
      {"TensorCountMax", E::truncated, "tensor_count", gguf_head(kMax, 0)},
      {"TensorCountTimesSizeWraps", E::truncated, "tensor_count", gguf_head(kMax / 25 + 2, 0).zeros(100)},
      {"CountsCutOff", E::truncated, "metadata_kv_count", Bytes().text("GGUF").u32(3).u64(0).u32(0)},
      {"KeyLengthMax", E::truncated, "key 0", gguf_head(0, 1).u64(kMax).zeros(128)},
      {"KeyLengthGigabyteInSmallFile", E::truncated, "key 0", gguf_head(0, 1).u64(std::uint64_t{1} << 30).zeros(128)},
      {"KeyAboveLimit", E::limit_exceeded, "key 0", gguf_head(0, 1).str(std::string(1025, 'k')).u32(4).u32(0)},
      {"EmptyKey", E::malformed, "key 0", gguf_head(0, 1).str("").u32(4).u32(7).zeros(16)},
      {"KeyNotUtf8", E::malformed, "key 0", gguf_head(0, 1).str("a\xff").u32(4).u32(7)},
      {"DuplicateKey", E::malformed, "a", gguf_head(0, 2).str("a").u32(4).u32(7).str("a").u32(4).u32(8)},
      {"UnknownValueType", E::unsupported, "a", gguf_head(0, 1).str("a").u32(13).u64(0)},
      {"NegativeValueType", E::unsupported, "a", gguf_head(0, 1).str("a").u32(0xFFFFFFFF).u64(0)},
      {"BoolTwo", E::malformed, "a", gguf_head(0, 1).str("a").u32(7).u8(2)},
      {"ValueCutOff", E::truncated, "a", gguf_head(0, 1).str("a").u32(10).u32(1)},
      {"StringValueLengthMax", E::truncated, "a", gguf_head(0, 1).str("a").u32(8).u64(kMax).zeros(32)},
      {"ArrayOfArrays", E::unsupported, "a", gguf_head(0, 1).str("a").u32(9).u32(9).u64(1).u32(4).u64(0)},
      {"ArrayUnknownElement", E::unsupported, "a", gguf_head(0, 1).str("a").u32(9).u32(77).u64(1).u64(0)},
      {"ArrayCountMax", E::truncated, "a", gguf_head(0, 1).str("a").u32(9).u32(0).u64(kMax).zeros(64)},
      {"ArrayBytesWrap", E::truncated, "a", gguf_head(0, 1).str("a").u32(9).u32(10).u64((kMax >> 3) + 2).zeros(64)},
      {"StringArrayCountWraps", E::truncated, "a",
       gguf_head(0, 1).str("a").u32(9).u32(8).u64(std::uint64_t{1} << 61).zeros(64)},
      {"StringArrayElementTooLong", E::truncated, "a",
       gguf_head(0, 1).str("a").u32(9).u32(8).u64(2).str("x").u64(kMax - 8).zeros(8)},
      {"BoolArrayTwo", E::malformed, "a", gguf_head(0, 1).str("a").u32(9).u32(7).u64(2).u8(1).u8(2)},
      {"AlignmentZero", E::malformed, "general.alignment", alignment_file(4, [](Bytes& b) { b.u32(0); })},
      {"AlignmentThree", E::malformed, "general.alignment", alignment_file(4, [](Bytes& b) { b.u32(3); })},
      {"AlignmentFour", E::malformed, "general.alignment", alignment_file(4, [](Bytes& b) { b.u32(4); })},
      {"AlignmentTwoGigabyte", E::limit_exceeded, "general.alignment",
       alignment_file(4, [](Bytes& b) { b.u32(1U << 31); })},
      {"AlignmentWrongType", E::malformed, "general.alignment", alignment_file(10, [](Bytes& b) { b.u64(32); })},
      {"AlignmentString", E::malformed, "general.alignment", alignment_file(8, [](Bytes& b) { b.str("32"); })},
      {"TensorTableCutOff", E::truncated, "t", gguf_head(1, 0).str("t").u32(2).u64(8).u64(8)},
      {"TensorNameEmpty", E::malformed, "tensor 0", gguf_head(1, 0).str("").u32(1).u64(8).u32(0).u64(0).zeros(64)},
      {"TensorNameOf64", E::limit_exceeded, "tensor 0",
       gguf_head(1, 0).str(std::string(64, 'n')).u32(1).u64(8).u32(0).u64(0).zeros(64)},
      {"TensorNameNotUtf8", E::malformed, "tensor 0",
       gguf_head(1, 0).str("\xc3(").u32(1).u64(8).u32(0).u64(0).zeros(64)},
      {"TensorNameTwice", E::malformed, "t", two_tensors(32, 64, "t")},
      {"FiveDimensions", E::limit_exceeded, "t", one_tensor({1, 1, 1, 1, 1}, 0, 0, 64)},
      {"FourBillionDimensions", E::limit_exceeded, "t", gguf_head(1, 0).str("t").u32(0xFFFFFFFF).zeros(200)},
      {"DimensionZero", E::malformed, "t", one_tensor({8, 0}, 0, 0, 64)},
      {"DimensionsNegativeProduct", E::limit_exceeded, "t", one_tensor({0x7FFFFFFFFFFFFFFF, 2, 1, 1}, 0, 0, 64)},
      {"DimensionTimesStrideWraps", E::limit_exceeded, "t",
       one_tensor({32, (std::uint64_t{1} << 42) + 1, std::uint64_t{1} << 18}, 8, 0, 64)},
      {"ProductWrapsToZero", E::limit_exceeded, "t",
       one_tensor({std::uint64_t{1} << 32, std::uint64_t{1} << 32}, 0, 0, 64)},
      {"DimensionMax", E::limit_exceeded, "t", one_tensor({kMax}, 0, 0, 64)},
      {"RetiredType", E::unsupported, "t", one_tensor({32}, 4, 0, 64)},
      {"NegativeType", E::unsupported, "t", one_tensor({32}, 0xFFFFFFFF, 0, 64)},
      {"TypeAboveTable", E::unsupported, "t", one_tensor({32}, 1000, 0, 64)},
      {"RowNotWholeBlocks", E::malformed, "t", one_tensor({33}, 8, 0, 64)},
      {"DataPastTheEnd", E::truncated, "t", one_tensor({32}, 0, 0, 64)},
      {"OffsetPastTheEnd", E::malformed, "t", one_tensor({8}, 0, 1 << 20, 64)},
      {"OffsetMax", E::malformed, "t", one_tensor({8}, 0, kMax, 64)},
      {"Overlap", E::malformed, "u", two_tensors(0, 64)},
      {"PartialOverlap", E::malformed, "u", two_tensors(16, 64)},
      {"Hole", E::malformed, "u", two_tensors(64, 128)},
      {"SecondPastTheEnd", E::truncated, "u", two_tensors(32, 40)},
      {"HugeTensorsInASmallFile", E::truncated, "t", wrapping_sum()},
      {"NoDataAtAll", E::truncated, "t", gguf_head(1, 0).str("t").u32(1).u64(8).u32(0).u64(0)},
  };
  Bytes many = gguf_head(0, 20000);  // the dearest keys per byte of file
  for (int i = 0; i < 20000; ++i) many.str(std::to_string(i % 19999)).u32(0).u8(1);
  cases.push_back({"TwentyThousandKeysOneTwice", E::malformed, "0", many});
  Bytes tensors = gguf_head(20000, 0);
  for (int i = 0; i < 20000; ++i) tensors.str(std::to_string(i)).u32(0).u32(24).u64(static_cast<std::uint64_t>(i) * 32);
  cases.push_back({"TwentyThousandScalarsWithoutData", E::truncated, "0", tensors});
  return cases;
}

// clang-format on
class HostileGguf : public HostileFile {};
TEST_P(HostileGguf, IsRefused) { expect_refused(write("x.gguf", GetParam().bytes)); }
INSTANTIATE_TEST_SUITE_P(Generated, HostileGguf, ::testing::ValuesIn(gguf_cases()),
                         [](const auto& test) { return std::string(test.param.name); });

// ---- safetensors
// ------------------------------------------------------------------------------------------------------

std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

// clang-format off: one case a line
std::vector<Case> safetensors_cases() {
  using E = ErrorCode;
  const auto st = [](std::string_view header, std::size_t data = 0) { return safetensors_bytes(header, data); };
  const auto length_only = [](std::uint64_t length) {
    return std::string(Bytes().u64(length).text("{}      ").zeros(56));
  };
  return {
      {"Empty", E::truncated, "", ""},
      {"SevenBytes", E::truncated, "header length", std::string(7, '\0')},
      {"LengthMax", E::truncated, "header length", length_only(kMax)},
      {"LengthWrapsWhenEightIsAdded", E::truncated, "header length", length_only(kMax - 7)},
      {"LengthOnePastTheEnd", E::truncated, "header length", length_only(65)},
      {"LengthZero", E::malformed, "header", Bytes().u64(0).zeros(8)},
      {"LeadingSpace", E::malformed, "header", st(" {}")},
      {"HeaderIsAList", E::malformed, "header", st("[]")},
      {"NotUtf8", E::malformed, "", st("{\"\xff\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4)},
      {"JsonCutOff", E::malformed, "t", st(R"({"t":{"dtype":"F32")")},
      {"BytesAfterTheObject", E::malformed, "", st("{}x")},
      {"NulInPadding", E::malformed, "", st(std::string_view("{}\0\0\0\0\0\0", 8))},
      {"DuplicateTensor", E::malformed, "t",
       st(R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"t":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
          2)},
      {"DuplicateKey", E::malformed, "t.dtype",
       st(R"({"t":{"dtype":"U8","dtype":"F64","shape":[1],"data_offsets":[0,1]}})", 1)},
      {"DeepNestingInMetadata", E::limit_exceeded,
       "__metadata__.k[0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0]["
       "0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0]",
       st("{\"__metadata__\":{\"k\":" + nested(100'000) + "}}")},
      {"MetadataNotStrings", E::malformed, "__metadata__.k", st(R"({"__metadata__":{"k":1}})")},
      {"MetadataNotAnObject", E::malformed, "__metadata__", st(R"({"__metadata__":[]})")},
      {"EmptyTensorName", E::malformed, "", st(R"({"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1)},
      {"EntryNotAnObject", E::malformed, "t", st(R"({"t":1})")},
      {"MissingDtype", E::malformed, "t.dtype", st(R"({"t":{"shape":[1],"data_offsets":[0,1]}})", 1)},
      {"MissingShape", E::malformed, "t.shape", st(R"({"t":{"dtype":"U8","data_offsets":[0,1]}})", 1)},
      {"MissingOffsets", E::malformed, "t.data_offsets", st(R"({"t":{"dtype":"U8","shape":[1]}})", 1)},
      {"UnknownKey", E::malformed, "t.stride",
       st(R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"stride":[1]}})", 1)},
      {"UnknownDtype", E::unsupported, "t", st(R"({"t":{"dtype":"Q9","shape":[1],"data_offsets":[0,999]}})", 1)},
      {"EmptyDtype", E::unsupported, "t", st(R"({"t":{"dtype":"","shape":[1],"data_offsets":[0,1]}})", 1)},
      {"DtypeNumber", E::malformed, "t", st(R"({"t":{"dtype":3,"shape":[1],"data_offsets":[0,1]}})", 1)},
      {"ShapeFraction", E::malformed, "t", st(R"({"t":{"dtype":"U8","shape":[1.5],"data_offsets":[0,1]}})", 1)},
      {"ShapeNegative", E::malformed, "t", st(R"({"t":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", 1)},
      {"ShapeAboveSixtyFourBits", E::malformed, "t",
       st(R"({"t":{"dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,0]}})")},
      {"ShapeString", E::malformed, "t", st(R"({"t":{"dtype":"U8","shape":"1","data_offsets":[0,1]}})", 1)},
      {"ShapeProductWraps", E::limit_exceeded, "t",
       st(R"({"t":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})")},
      {"ShapeWrapHiddenByZero", E::limit_exceeded, "t",
       st(R"({"t":{"dtype":"F32","shape":[0,4294967296,4294967296],"data_offsets":[0,0]}})")},
      {"ShapeBytesWrap", E::limit_exceeded, "t",
       st(R"({"t":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}})")},
      {"FiveDimensions", E::limit_exceeded, "t",
       st(R"({"t":{"dtype":"U8","shape":[1,1,1,1,1],"data_offsets":[0,1]}})", 1)},
      {"ShapeLargerThanOffsets", E::malformed, "t", st(R"({"t":{"dtype":"F32","shape":[4],"data_offsets":[0,8]}})", 8)},
      {"ShapeSmallerThanOffsets", E::malformed, "t",
       st(R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", 8)},
      {"OddCountOfHalfBytes", E::malformed, "t", st(R"({"t":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}})", 2)},
      {"OffsetsReversed", E::malformed, "t", st(R"({"t":{"dtype":"U8","shape":[4],"data_offsets":[8,4]}})", 8)},
      {"OffsetsNegative", E::malformed, "t", st(R"({"t":{"dtype":"U8","shape":[4],"data_offsets":[-4,0]}})", 8)},
      {"OffsetsThree", E::malformed, "t", st(R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}})", 8)},
      {"OffsetsFraction", E::malformed, "t", st(R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1.0]}})", 8)},
      {"EndPastTheFile", E::truncated, "t", st(R"({"t":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", 15)},
      {"EndMax", E::truncated, "t",
       st(R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[18446744073709551614,18446744073709551615]}})", 1)},
      {"Overlap", E::malformed, "u",
       st(R"({"t":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"u":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
          6)},
      {"SameBytesTwice", E::malformed, "u",
       st(R"({"t":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"u":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
          4)},
      {"Hole", E::malformed, "u",
       st(R"({"t":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"u":{"dtype":"U8","shape":[4],"data_offsets":[5,9]}})",
          9)},
      {"HoleAtTheStart", E::malformed, "t", st(R"({"t":{"dtype":"U8","shape":[4],"data_offsets":[1,5]}})", 5)},
      {"BytesAfterTheLastTensor", E::malformed, "", st(R"({"t":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 5)},
      {"BytesWithoutTensors", E::malformed, "", st("{}", 1)},
  };
}

// clang-format on
class HostileSafetensors : public HostileFile {};
TEST_P(HostileSafetensors, IsRefused) { expect_refused(write("x.safetensors", GetParam().bytes)); }
INSTANTIATE_TEST_SUITE_P(Generated, HostileSafetensors, ::testing::ValuesIn(safetensors_cases()),
                         [](const auto& test) { return std::string(test.param.name); });

// ---- several files
// ----------------------------------------------------------------------------------------------------

using HostileFolder = ScratchTest;

std::string error_text(const std::string& path) {
  const auto opened = Checkpoint::open(path);
  if (opened.ok()) return "accepted";
  return std::string(to_string(opened.error().code)) + " " + opened.error().field;
}

TEST_F(HostileFolder, IndexMayNotLeaveItsFolder) {
  for (const char* name : {"../../x", "..", ".", "/etc/passwd", "a/b.safetensors", "a\\\\b", "C:x", "", "\\u0000"}) {
    write("model.safetensors.index.json", std::string(R"({"weight_map":{"t":")") + name + "\"}}");
    EXPECT_EQ(error_text(folder_.string()), "malformed weight_map.t") << name;
  }
}

TEST_F(HostileFolder, IndexShape) {
  const auto index = [&](const char* text) {
    write("model.safetensors.index.json", text);
    return error_text(folder_.string());
  };
  EXPECT_EQ(index("{}"), "malformed weight_map");
  EXPECT_EQ(index("[]"), "malformed weight_map");
  EXPECT_EQ(index(R"({"weight_map":[]})"), "malformed weight_map");
  EXPECT_EQ(index(R"({"weight_map":{}})"), "malformed weight_map");
  EXPECT_EQ(index(R"({"weight_map":{"t":1}})"), "malformed weight_map.t");
  EXPECT_EQ(index(R"({"weight_map":{"t":"a","t":"b"}})"), "malformed weight_map.t");
  EXPECT_EQ(index(R"({"weight_map":{"t":"absent.safetensors"}})"), "not_found ");
  EXPECT_EQ(index("{\"weight_map\":"), "malformed weight_map");
}

TEST_F(HostileFolder, IndexMustAgreeWithTheShards) {
  const std::string one =
      R"({"t":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"u":{"dtype":"U8","shape":[1],"data_offsets":[4,5]}})";
  write("a.safetensors", safetensors_bytes(one, 5));
  write("b.safetensors", safetensors_bytes(R"({"v":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 2));
  const auto index = [&](const char* map) {
    write("model.safetensors.index.json", std::string("{\"weight_map\":") + map + "}");
    return error_text(folder_.string());
  };
  EXPECT_EQ(index(R"({"t":"a.safetensors","u":"a.safetensors","v":"b.safetensors"})"), "accepted");
  EXPECT_EQ(index(R"({"t":"a.safetensors","v":"b.safetensors"})"), "unexpected_tensor u");
  EXPECT_EQ(index(R"({"t":"a.safetensors","u":"b.safetensors","v":"b.safetensors"})"), "unexpected_tensor u");
  EXPECT_EQ(index(R"({"t":"a.safetensors","u":"a.safetensors","v":"b.safetensors","w":"b.safetensors"})"),
            "missing_tensor w");
  write("b.safetensors", safetensors_bytes(R"({"t":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 2));
  EXPECT_EQ(index(R"({"t":"a.safetensors","u":"a.safetensors","v":"b.safetensors"})"), "missing_tensor v");
}

// One part of a split file holding an i8[32] tensor.
std::string part(std::uint16_t number, std::uint16_t count, std::int32_t tensors, const char* tensor) {
  return gguf_head(1, 3)
      .str("split.no")
      .u32(2)
      .raw(number)
      .str("split.count")
      .u32(2)
      .raw(count)
      .str("split.tensors.count")
      .u32(5)
      .raw(tensors)
      .str(tensor)
      .u32(1)
      .u64(32)
      .u32(24)
      .u64(0)
      .align(32)
      .zeros(32);
}

TEST_F(HostileFolder, SplitGguf) {
  const std::string first = write("m-00001-of-00002.gguf", part(0, 2, 2, "t"));
  EXPECT_EQ(error_text(first), "not_found ") << "second part absent";
  const std::string second = write("m-00002-of-00002.gguf", part(1, 2, 2, "u"));
  EXPECT_EQ(error_text(first), "accepted");
  EXPECT_EQ(error_text(folder_.string()), "accepted") << "a folder with one split model";
  EXPECT_EQ(error_text(second), "invalid_argument split.no");
  write("m-00002-of-00002.gguf", part(1, 2, 2, "t"));
  EXPECT_EQ(error_text(first), "malformed t") << "one name in both parts";
  write("m-00002-of-00002.gguf", part(0, 2, 2, "u"));
  EXPECT_EQ(error_text(first), "malformed split.no");
  write("m-00002-of-00002.gguf", part(1, 3, 2, "u"));
  EXPECT_EQ(error_text(first), "malformed split.no");
  write("m-00002-of-00002.gguf", part(1, 2, 2, "u"));
  write("m-00001-of-00002.gguf", part(0, 2, 3, "t"));
  EXPECT_EQ(error_text(first), "missing_tensor split.tensors.count");
  EXPECT_EQ(error_text(write("alone.gguf", part(0, 65535, 1, "t"))), "malformed split.count");
}

TEST_F(HostileFolder, FolderWithoutAModel) {
  EXPECT_EQ(error_text(folder_.string()), "not_found ");
  EXPECT_EQ(error_text(path("absent")), "not_found ");
  write("a.gguf", one_key(0).get());
  EXPECT_EQ(error_text(folder_.string()), "accepted");
  write("b.gguf", one_key(0).get());
  EXPECT_EQ(error_text(folder_.string()), "invalid_argument ");
}

TEST_F(HostileFolder, ForeignFilesAreRefusedByName) {
  for (const auto& [magic, word] : {std::pair{"PK\x03\x04", "zip"},
                                    {"tjgg", "GGJT"},
                                    {"lmgg", "GGML"},
                                    {"\x89HDF", "HDF5"},
                                    {"version https://git-lfs.github.com/spec/v1", "LFS"}}) {
    const auto opened = Checkpoint::open(write("model.safetensors", std::string(magic) + std::string(64, '\1')));
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.error().code, ErrorCode::unsupported);
    EXPECT_NE(opened.error().message.find(word), std::string::npos) << opened.error().to_string();
  }
}

// The header cap is above any file that a test should write, so the file is sparse.
TEST_F(HostileFolder, HeaderAboveTheReferenceLimit) {
  const std::string file = write("x.safetensors", Bytes().u64(100'000'001).text("{").get());
  std::filesystem::resize_file(file, 200'000'000);
  reset_heap_peak();
  const std::size_t before = live_heap_bytes();
  EXPECT_EQ(error_text(file), "limit_exceeded header length");
  EXPECT_LE(peak_heap_bytes() - before, kFixedBytes);
}

// A list of empty lists costs the most memory per byte of JSON.
TEST_F(HostileFolder, MemoryOfJsonIsLinear) {
  std::string lists = "[]";
  for (int i = 0; i < 200'000; ++i) lists += ",[]";
  const std::string bytes = safetensors_bytes("{\"t\":[" + lists + "]}", 0);
  const std::string file = write("x.safetensors", bytes);
  reset_heap_peak();
  const std::size_t before = live_heap_bytes();
  EXPECT_EQ(error_text(file), "malformed t");
  EXPECT_LE(peak_heap_bytes() - before, 48 * bytes.size() + kFixedBytes);
}

TEST_F(HostileFolder, TruncationWhileOpenIsReported) {
  const std::string file = write("x.gguf", one_tensor({1 << 16}, 0, 0, 4 << 16));
  auto opened = Checkpoint::open(file);
  ASSERT_TRUE(opened.ok()) << opened.error().to_string();
  std::filesystem::resize_file(file, 8192);
  std::uint64_t sum = 0;
  for (const std::byte b : opened->tensors()[0].data) sum += static_cast<std::uint64_t>(b);
  EXPECT_EQ(sum, 0U);
  EXPECT_EQ(opened->check().error().code, ErrorCode::truncated);
  EXPECT_EQ(opened->check().error().subject, file);
}

TEST_F(HostileFolder, NanScalesAreFound) {
  std::string blocks = one_tensor({64, 2}, 39, 0, 68);
  const std::size_t data = blocks.size() - 68;
  EXPECT_TRUE(reject_nan_scales(Checkpoint::open(write("a.gguf", blocks))->tensors()[0], "a").ok());
  blocks[data + 2 * 17] = '\xff';
  auto opened = Checkpoint::open(write("b.gguf", blocks));
  ASSERT_TRUE(opened.ok());
  const Status status = reject_nan_scales(opened->tensors()[0], "b.gguf");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().to_string(), "malformed: b.gguf: t: block scale 0xFF is NaN (found block 2)");
}

}  // namespace
}  // namespace plumb::format
