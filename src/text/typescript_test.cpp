#include "text/typescript.h"

#include <gtest/gtest.h>

namespace plumb::text {
namespace {

std::string type(std::string_view schema) {
  const auto text = typescript_type(schema, "test");
  EXPECT_TRUE(text.ok()) << text.error().to_string();
  return text.ok() ? *text : "";
}

TEST(Typescript, KnowsTheTypes) {
  EXPECT_EQ(type(R"({"type": "string"})"), "string");
  EXPECT_EQ(type(R"({"type": "integer"})"), "number");
  EXPECT_EQ(type(R"({"type": ["integer", "null"]})"), "number | null");
  EXPECT_EQ(type(R"({"type": "array", "items": {"type": "boolean"}})"), "boolean[]");
  EXPECT_EQ(type(R"({"type": "array"})"), "Array<any>");
  EXPECT_EQ(type(R"({"type": "string", "enum": ["a", "b"]})"), "\"a\" | \"b\"");
  EXPECT_EQ(type(R"({"type": "string", "enum": [1]})"), "string");
  EXPECT_EQ(type(R"({"$ref": "#/x"})"), "any");
  EXPECT_EQ(type("{}"), "any");
  EXPECT_EQ(type(R"({"type": "object", "properties": {"z": {"type": "number"}, "a": {"type": "string"}}, "required": ["a"]})"),
            "{\nz?: number,\na: string,\n}");
  EXPECT_EQ(type(R"({"type": "object", "properties": {"in": {"type": "object", "properties": {"x": {}}}}})"),
            "{\nin?: {\n    x?: any,\n    },\n}");
}

TEST(Typescript, CommentsStayComments) {
  EXPECT_EQ(type(R"({"type": "object", "properties": {"a": {"type": "string", "description": "one\ntwo", "default": "x\ny"}}})"),
            "{\n// one\n// two\na?: string, // default: \"x y\"\n}");
}

TEST(Typescript, ADescriptionIsGivenOnce) {
  EXPECT_EQ(type(R"({"type": "object", "properties": {"a": {"description": "D", "oneOf": [{"type": "string", "description": "first"},
                {"type": "number", "description": "D"}, {"type": "boolean", "description": "E"}]}}})"),
            "{\n// D\na?:\n | string\n | number\n | boolean // E\n,\n}");
  EXPECT_EQ(type(R"({"oneOf": [{"type": "string", "description": "first"}, {"type": "number", "nullable": true}]})"),
            "\n | string // first\n | number | null");
}

TEST(Typescript, OddSchemasAreAny) {
  for (const std::string_view odd : {R"({"type": 5})", R"({"type": {}})", R"({"oneOf": 1})", R"({"type": "object", "properties": []})",
                                     R"({"type": "object", "properties": {"a": 1, "b": null, "c": []}, "required": "a"})",
                                     R"({"type": [1, 2]})", R"({"oneOf": [1, null]})"}) {
    EXPECT_FALSE(type(odd).empty()) << odd;
  }
}

TEST(Typescript, RefusesWhatIsNoSchema) {
  EXPECT_EQ(typescript_type("[]", "t").error().code, ErrorCode::malformed);
  EXPECT_EQ(typescript_type("{", "t").error().code, ErrorCode::malformed);
  EXPECT_EQ(typescript_type(R"({"a":1,"a":2})", "t").error().code, ErrorCode::malformed);
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "{\"items\":";
  EXPECT_EQ(typescript_type(deep, "t").error().code, ErrorCode::limit_exceeded);
  std::string wide = "{\"type\":\"object\",\"properties\":{";
  for (int i = 0; i < 5000; ++i) wide += (i == 0 ? "\"p" : ",\"p") + std::to_string(i) + "\":{}";
  EXPECT_EQ(typescript_type(wide + "}}", "t").error().code, ErrorCode::limit_exceeded);
  const auto section = tool_section({"functions", "", {{"f", "", "nonsense"}}});
  ASSERT_FALSE(section.ok());
  EXPECT_EQ(section.error().subject, "tool f");
}

TEST(Typescript, AFunctionWithoutPropertiesTakesNothing) {
  const auto section = tool_section({"functions", "", {{"f", "Does it.", R"({"type": "object", "properties": {}})"}}});
  ASSERT_TRUE(section.ok());
  EXPECT_EQ(*section, "## functions\n\nnamespace functions {\n\n// Does it.\ntype f = () => any;\n\n} // namespace functions");
}

}  // namespace
}  // namespace plumb::text
