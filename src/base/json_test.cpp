#include "base/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/printable.h"

namespace plumb {
namespace {

Error error_of(std::string_view text, const ParseLimits& limits = {}) {
  auto result = parse_json(text, "x.json", limits);
  EXPECT_FALSE(result.ok()) << "accepted: " << printable(text);
  return result.ok() ? Error{} : result.error();
}

TEST(Json, ReadsEveryKindOfValue) {
  auto result =
      parse_json(R"( {"a":[1,-2,2.5,true,null,"\u00e9\ud83d\ude00",[],{}],"b":{"c":18446744073709551615}} )", "x");
  ASSERT_TRUE(result.ok()) << result.error().to_string();
  const nlohmann::json& v = result.value();
  EXPECT_EQ(v["a"].size(), 8U);
  EXPECT_EQ(v["a"][0].get<int>(), 1);
  EXPECT_EQ(v["a"][1].get<int>(), -2);
  EXPECT_EQ(v["a"][2].get<double>(), 2.5);
  EXPECT_EQ(v["a"][5].get<std::string>(), "é😀");
  EXPECT_EQ(v["b"]["c"].get<std::uint64_t>(), ~std::uint64_t{0});
  EXPECT_EQ(result.value(), nlohmann::json::parse(result.value().dump()));
}

TEST(Json, ScalarsAreDocuments) {
  EXPECT_EQ(parse_json("3", "x").value(), nlohmann::json(3));
  EXPECT_EQ(parse_json("\"s\"", "x").value(), nlohmann::json("s"));
}

TEST(Json, DuplicateKeyIsNamedByPath) {
  const Error e = error_of(R"({"a":[0,{"b":1,"b":2}]})");
  EXPECT_EQ(e.code, ErrorCode::malformed);
  EXPECT_EQ(e.subject, "x.json");
  EXPECT_EQ(e.field, "a[1].b");
}

TEST(Json, DepthStopsAtTheLimit) {
  ParseLimits limits;
  limits.max_depth = 5;
  EXPECT_TRUE(parse_json("[[[[[]]]]]", "x", limits).ok());
  EXPECT_EQ(error_of("[[[[[[]]]]]]", limits).code, ErrorCode::limit_exceeded);
  EXPECT_EQ(error_of(R"({"a":{"a":{"a":{"a":{"a":{}}}}}})", limits).field, "a.a.a.a.a");
}

TEST(Json, HundredThousandBracketsCostNoStack) {
  EXPECT_EQ(error_of(std::string(100'000, '[')).code, ErrorCode::limit_exceeded);
  ParseLimits wide;
  wide.max_depth = 1'000'000;
  EXPECT_EQ(error_of(std::string(100'000, '['), wide).code, ErrorCode::malformed);
}

TEST(Json, RefusesWhatIsNotOneDocument) {
  for (std::string_view text :
       {std::string_view(""), std::string_view("{} x"), std::string_view("{}{}"), std::string_view("{}\0", 3),
        std::string_view("[1,]"), std::string_view("{\"a\"}"), std::string_view("nul"), std::string_view("[1e999]"),
        std::string_view("\"\xff\""), std::string_view("\"\xed\xa0\x80\""), std::string_view("\"\\ud800\""),
        std::string_view("\"a\nb\""), std::string_view("// c\n1"), std::string_view("NaN"), std::string_view("01")}) {
    EXPECT_EQ(error_of(text).code, ErrorCode::malformed) << printable(text);
  }
}

TEST(Json, ErrorTextIsValidUtf8WhateverTheInput) {
  const Error e = error_of("{\"k\": \"abc\xff\xfe\"}");
  EXPECT_TRUE(is_utf8(e.to_string()));
  EXPECT_EQ(e.field, "k");
  EXPECT_NE(e.value.find("line 1"), std::string::npos) << e.value;
}

TEST(Json, TextAboveTheLimitIsRefusedUnread) {
  ParseLimits limits;
  limits.max_header_bytes = 4;
  EXPECT_EQ(error_of("[1,2]", limits).code, ErrorCode::limit_exceeded);
}

TEST(Printable, EscapesAndCuts) {
  EXPECT_EQ(printable("plain é"), "plain é");
  EXPECT_EQ(printable(std::string_view("a\n\0\xff", 4)), "a\\x0a\\x00\\xff");
  EXPECT_EQ(printable("ééé", 4), "éé...");
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
}

}  // namespace
}  // namespace plumb
