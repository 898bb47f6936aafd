#include "base/json_fields.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json.h"

namespace plumb {
namespace {

using nlohmann::json;

TEST(JsonFields, ReadsEveryTypeAndLeavesWhatIsAbsentOrNull) {
  const json value = parse_json(R"({"b": true, "i": -5, "l": -9007199254740993, "u": 18446744073709551615, "f": 0.1, "d": 1e300,
                                    "s": "x", "ids": [1, 2], "words": ["a", "b"], "none": null})", "test").value();
  JsonFields fields(value, "test");
  bool b = false;
  std::int32_t i = 0, none = 7, absent = 8;
  std::int64_t l = 0;
  std::uint64_t u = 0;
  float f = 0;
  double d = 0;
  std::string s;
  std::vector<std::int32_t> ids = {9};
  std::vector<std::string> words;
  fields.read("b", b);
  fields.read("i", i);
  fields.read("l", l);
  fields.read("u", u);
  fields.read("f", f);
  fields.read("d", d);
  fields.read("s", s);
  fields.read("ids", ids);
  fields.read("words", words);
  fields.read("none", none);
  fields.read("absent", absent);
  ASSERT_TRUE(fields.finish().ok());
  EXPECT_TRUE(b);
  EXPECT_EQ(i, -5);
  EXPECT_EQ(l, -9007199254740993);
  EXPECT_EQ(u, 18446744073709551615U);
  EXPECT_EQ(f, 0.1F);
  EXPECT_EQ(d, 1e300);
  EXPECT_EQ(s, "x");
  EXPECT_EQ(ids, (std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(words, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(none, 7);
  EXPECT_EQ(absent, 8);
}

TEST(JsonFields, AMemberNobodyReadIsNamed) {
  const json value = {{"known", 1}, {"extra", "text"}};
  JsonFields fields(value, "line 3", "body");
  std::int32_t known = 0;
  fields.read("known", known);
  const Status status = fields.finish();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().subject, "line 3");
  EXPECT_EQ(status.error().field, "body.extra");
  EXPECT_EQ(status.error().value, "\"text\"");
}

template <class T>
Error error_of(const json& found) {
  const json value = {{"x", found}};
  JsonFields fields(value, "test");
  T out{};
  fields.read("x", out);
  const Status status = fields.finish();
  return status.ok() ? Error{} : status.error();
}

TEST(JsonFields, RefusesAnotherTypeAndWhatDoesNotFit) {
  EXPECT_EQ(error_of<bool>(1).field, "x");
  EXPECT_EQ(error_of<std::int32_t>(1.5).value, "1.5");
  EXPECT_EQ(error_of<std::int32_t>(std::uint64_t{2147483648}).value, "2147483648");
  EXPECT_EQ(error_of<std::int32_t>(std::int64_t{-2147483649}).value, "-2147483649");
  EXPECT_EQ(error_of<std::uint64_t>(-1).value, "-1");
  EXPECT_EQ(error_of<std::int64_t>(std::uint64_t{1} << 63).field, "x");
  EXPECT_EQ(error_of<float>(1e39).message, "must fit a 32-bit float");
  EXPECT_EQ(error_of<double>("1").field, "x");
  EXPECT_EQ(error_of<std::string>(1).field, "x");
  EXPECT_EQ(error_of<std::vector<std::int32_t>>(json::array({1, "a"})).field, "x[1]");
  EXPECT_EQ(error_of<std::vector<std::string>>(json::array({"a", 2})).field, "x[1]");
  EXPECT_EQ(error_of<std::vector<std::string>>("a").value, "\"a\"");
}

TEST(JsonFields, KeepsTheFirstError) {
  const json value = {{"a", "no"}, {"b", "no"}};
  JsonFields fields(value, "test");
  std::int32_t a = 1;
  fields.read("a", a);
  fields.read("b", a);
  EXPECT_FALSE(fields.ok());
  EXPECT_EQ(fields.finish().error().field, "a");
  EXPECT_EQ(a, 1);
}

TEST(JsonFields, WhatIsNoObjectIsAnError) {
  const json value = json::array();
  JsonFields fields(value, "test", "body");
  std::int32_t a = 1;
  fields.read("a", a);
  EXPECT_EQ(fields.finish().error().field, "body");
}

}  // namespace
}  // namespace plumb
