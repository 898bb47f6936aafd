#include "plumb/wire.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

namespace plumb {
namespace {

using nlohmann::json;

// No field at its default.
Request full_request() {
  return {.prompt = "Ein \"Schiff\"\n\tmit \\ und \xE2\x82\xAC",
          .prompt_ids = {0, 1, 2147483647},
          .parse_special = true,
          .max_tokens = 17,
          .sampling = {.temperature = 0.1F, .top_p = 0.7F, .min_p = 1e-45F, .top_k = 40, .seed = 18446744073709551615U, .choice = 3,
                       .repetition_penalty = 1.1F, .frequency_penalty = -0.3F, .presence_penalty = 0.4F},
          .stop = {"\n\n", std::string("\0", 1), "x"},
          .stop_ids = {7, 8},
          .ignore_eos = true,
          .logit_bias = {{5, -1e6F}, {6, 0.5F}},
          .choices = {{"yes", "no"}},
          .priority = -2,
          .deadline_ms = 0.1,
          .branch_points = {3, 9},
          .logit_positions = {0, 4},
          .token_logits = true};
}

Event full_event() {
  return {.kind = EventKind::finished,
          .token = 5,
          .position = 9,
          .text = "tail",
          .logits = {0.1F, -0.0F, std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::max(),
                     std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()},
          .logit_digest = 0xFEDCBA9876543210U,
          .finish = Finish::error,
          .usage = {.prompt_tokens = 1, .completion_tokens = 2, .cached_tokens = 3, .rebuilt_tokens = 4, .matched_tokens = 5, .retractions = 6,
                    .queue_ms = 0.1, .prompt_ms = 1e-300, .completion_ms = 12345.678},
          .error = {ErrorCode::device_fault, "a kernel failed", "step 3", "attention", "layer 2"}};
}

TEST(Wire, ARequestComesBackAsItWas) {
  const std::string text = to_json(full_request());
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const auto back = request_from_json(text);
  ASSERT_TRUE(back.ok()) << back.error().to_string();
  EXPECT_EQ(*back, full_request());
  EXPECT_EQ(*request_from_json(to_json(Request{})), Request{});
}

// full_request() and full_event() leave nothing at its default, so a field that was lost would show above; here that claim is
// checked: leaving out any one member changes the value.
TEST(Wire, NoFieldOfTheExamplesIsAtItsDefault) {
  const json request = json::parse(to_json(full_request()));
  EXPECT_EQ(request.size(), 15U);
  for (const auto& [key, value] : request.items()) {
    json less = request;
    less.erase(key);
    EXPECT_NE(*request_from_json(less.dump()), full_request()) << key;
  }
  for (const auto& [key, value] : request["sampling"].items()) {
    json less = request;
    less["sampling"].erase(key);
    EXPECT_NE(*request_from_json(less.dump()), full_request()) << key;
  }
  const json event = json::parse(to_json(full_event()));
  EXPECT_EQ(event.size(), 9U);
  for (const auto& [key, value] : event.items()) {
    json less = event;
    less.erase(key);
    EXPECT_NE(to_json(*event_from_json(less.dump())), to_json(full_event())) << key;
  }
  for (const char* part : {"usage", "error"}) {
    for (const auto& [key, value] : event[part].items()) {
      json less = event;
      less[part].erase(key);
      EXPECT_NE(to_json(*event_from_json(less.dump())), to_json(full_event())) << part << "." << key;
    }
  }
}

TEST(Wire, AnEventComesBackToTheLastBit) {
  const auto back = event_from_json(to_json(full_event()));
  ASSERT_TRUE(back.ok()) << back.error().to_string();
  EXPECT_EQ(to_json(*back), to_json(full_event()));  // every field is written: the next test
  EXPECT_EQ(back->logits, full_event().logits);
  EXPECT_TRUE(std::signbit(back->logits[1]));
  EXPECT_EQ(back->logit_digest, full_event().logit_digest);
  EXPECT_EQ(back->usage.prompt_ms, full_event().usage.prompt_ms);
  EXPECT_EQ(to_json(*event_from_json("{}")), to_json(Event{}));
  EXPECT_TRUE(std::isnan(event_from_json(to_json(Event{.logits = {std::nanf("")}}))->logits.at(0)));
}

TEST(Wire, EveryNameOfAnEnumerationComesBack) {
  for (int i = 0; i <= static_cast<int>(EventKind::finished); ++i) {
    const Event event{.kind = static_cast<EventKind>(i)};
    EXPECT_EQ(event_from_json(to_json(event))->kind, event.kind);
  }
  for (int i = 0; i <= static_cast<int>(Finish::error); ++i) {
    const Event event{.finish = static_cast<Finish>(i)};
    EXPECT_EQ(event_from_json(to_json(event))->finish, event.finish);
  }
  for (int i = 0; i <= static_cast<int>(ErrorCode::internal); ++i) {
    const Event event{.error = {.code = static_cast<ErrorCode>(i), .message = "m"}};
    EXPECT_EQ(event_from_json(to_json(event))->error.code, event.error.code);
  }
}

TEST(Wire, BytesThatAreNoTextComeBackToo) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  const Request request{.prompt = all, .stop = {"\xFF", "plain"}};
  EXPECT_EQ(*request_from_json(to_json(request)), request);
}

Error error_of(const std::string& text) {
  const auto request = request_from_json(text);
  EXPECT_FALSE(request.ok()) << text;
  return request.ok() ? Error{} : request.error();
}

TEST(Wire, WhatIsWrongIsNamed) {
  EXPECT_EQ(error_of("{").code, ErrorCode::malformed);
  EXPECT_EQ(error_of("[]").code, ErrorCode::invalid_argument);
  EXPECT_EQ(error_of(R"({"prompt": "a", "prompt": "b"})").code, ErrorCode::malformed);
  const Error unknown = error_of(R"({"sampling": {"temprature": 1}})");
  EXPECT_EQ(unknown.subject, "request");
  EXPECT_EQ(unknown.field, "sampling.temprature");
  EXPECT_EQ(unknown.value, "1");
  EXPECT_EQ(error_of(R"({"max_tokens": 1.5})").field, "max_tokens");
  EXPECT_EQ(error_of(R"({"max_tokens": 4294967296})").value, "4294967296");
  EXPECT_EQ(error_of(R"({"sampling": 1})").field, "sampling");
  EXPECT_EQ(error_of(R"({"sampling": {"top_p": 1e39}})").field, "sampling.top_p");
  EXPECT_EQ(error_of(R"({"logit_bias": [{"token": 1}, {"token": "x"}]})").field, "logit_bias[1].token");
  EXPECT_EQ(error_of(R"({"stop": ["a", 1]})").field, "stop[1]");
  EXPECT_EQ(error_of(R"({"prompt": {"hex": "f"}})").field, "prompt");
  EXPECT_EQ(error_of(R"({"prompt": {"hex": "0g"}})").field, "prompt");
  EXPECT_EQ(event_from_json(R"({"kind": "tokens"})").error().field, "kind");
  EXPECT_EQ(event_from_json(R"({"logit_digest": "12"})").error().field, "logit_digest");
  EXPECT_EQ(event_from_json(R"({"logits": [1, "two"]})").error().field, "logits[1]");
}

TEST(Wire, WhatIsTooLargeIsRefused) {
  std::string deep = R"({"sampling": )";
  for (int i = 0; i < 100; ++i) deep += "[";
  EXPECT_EQ(error_of(deep).code, ErrorCode::limit_exceeded);
  EXPECT_EQ(error_of(std::string((1U << 26) + 1, ' ')).code, ErrorCode::limit_exceeded);
}

}  // namespace
}  // namespace plumb
