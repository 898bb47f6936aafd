#include "format/config.h"

#include <gtest/gtest.h>

namespace plumb::format {
namespace {

Config parse(std::string_view text) {
  auto config = Config::from_json(text, "config.json");
  EXPECT_TRUE(config.ok()) << config.error().to_string();
  return std::move(config).value();
}

TEST(Config, ReadsTheBundledModel) {
  auto opened = Config::from_file(PLUMB_SOURCE_DIR "/models/story/config.json");
  ASSERT_TRUE(opened.ok()) << opened.error().to_string();
  const Config& c = opened.value();
  EXPECT_EQ(c.require_uint("hidden_size", {32, 65536}).value(), 256U);
  EXPECT_EQ(c.require_real("rope_scaling.factor").value(), 32.0);
  EXPECT_EQ(c.require_uint("rope_scaling.factor").value(), 32U) << "32.0 is whole";
  EXPECT_EQ(c.require_real("rms_norm_eps").value(), 1e-5);
  EXPECT_FALSE(c.require_bool("rope_scaling.truncate").value());
  EXPECT_EQ(c.require_string("model_type").value(), "gpt_oss");
  const auto types = c.require_strings("layer_types");
  ASSERT_TRUE(types.ok());
  EXPECT_EQ(types->size(), 6U);
  EXPECT_EQ((*types)[1], "full_attention");
  EXPECT_EQ(c.require_strings("architectures").value(), std::vector<std::string>{"GptOssForCausalLM"});
  EXPECT_TRUE(c.has("rope_scaling"));
  EXPECT_EQ(c.first_of({"rope_parameters.rope_theta", "rope_theta"}), "rope_theta");
  EXPECT_EQ(c.first_of({"nope", "neither"}), "nope");
}

TEST(Config, ErrorsNameFileKeyRangeAndValue) {
  const Config c = parse(R"({"a":-1,"b":"x","c":2.5,"d":[1,"y"],"e":{"f":70000},"g":null,"h":true,"i":[1,[2]]})");
  const auto text = [](const auto& result) { return result.ok() ? "accepted" : result.error().to_string(); };
  EXPECT_EQ(text(c.require_uint("missing")), "not_found: config.json: missing: required key is missing");
  EXPECT_EQ(text(c.require_uint("g")), "not_found: config.json: g: required key is missing");
  EXPECT_EQ(text(c.require_uint("a", {1, 9})), "malformed: config.json: a: must be an integer from 1 to 9 (found -1)");
  EXPECT_EQ(text(c.require_uint("b")), "malformed: config.json: b: must be an integer of at least 0 (found \"x\")");
  EXPECT_EQ(text(c.require_uint("c")), "malformed: config.json: c: must be an integer of at least 0 (found 2.5)");
  EXPECT_EQ(text(c.require_uint("h")), "malformed: config.json: h: must be an integer of at least 0 (found true)");
  EXPECT_EQ(text(c.optional_uint("e.f", 1, {0, 65535})),
            "malformed: config.json: e.f: must be an integer from 0 to 65535 (found 70000)");
  EXPECT_EQ(text(c.require_uints("d")), "malformed: config.json: d[1]: must be an integer of at least 0 (found \"y\")");
  EXPECT_EQ(text(c.require_real("e")),
            "malformed: config.json: e: must be a number from -1e+30 to 1e+30 (found an object)");
  EXPECT_EQ(text(c.require_bool("b")), "malformed: config.json: b: must be true or false (found \"x\")");
  EXPECT_EQ(text(c.require_string("h")), "malformed: config.json: h: must be a string (found true)");
  EXPECT_FALSE(c.require_uints("i").ok());
}

TEST(Config, FallbacksServeAbsentAndNullKeys) {
  const Config c = parse(R"({"n":null,"one":7})");
  EXPECT_EQ(c.optional_uint("n", 5).value(), 5U);
  EXPECT_EQ(c.optional_real("x", 2.5).value(), 2.5);
  EXPECT_TRUE(c.optional_bool("x", true).value());
  EXPECT_EQ(c.optional_string("x", "s").value(), "s");
  EXPECT_EQ(c.require_uints("one").value(), std::vector<std::uint64_t>{7});
}

TEST(Config, RefusesTextThatIsNoConfig) {
  EXPECT_EQ(Config::from_json("[]", "c").error().code, ErrorCode::malformed);
  EXPECT_EQ(Config::from_json("{", "c").error().code, ErrorCode::malformed);
  const auto twice = Config::from_json(R"({"a.b":1,"a":{"b":2}})", "c");
  ASSERT_FALSE(twice.ok());
  EXPECT_EQ(twice.error().field, "a.b");
}

}  // namespace
}  // namespace plumb::format
