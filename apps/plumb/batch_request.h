// One line of a batch file as requests for the engine.
//
// Two forms. The batch form of OpenAI: {"custom_id", "method", "url", "body"} for completions and chat completions; and plain
// lines {"id", "prompt" or "ids", "n", ...}. docs/CLI.md lists their fields.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fields.h"
#include "base/parse_limits.h"
#include "plumb/plumb.h"
#include "text/harmony.h"

namespace plumb::app {

enum class BatchForm : std::uint8_t { plain, completion, chat };

// What a result is filed under.
struct BatchId {
  std::string text;     // empty: the line has none
  bool number = false;  // it was written as a number, and will be again
  bool openai = false;  // it is a custom_id
};

// What one line asks for. `requests`: one per answer, in the order of their index.
struct BatchRequest {
  std::uint64_t line = 0;  // from 1
  BatchId id;
  BatchForm form = BatchForm::plain;
  std::string model;  // as the body names it
  std::vector<Request> requests;
};

// What a line that does not say gets.
struct BatchDefaults {
  Sampling sampling;
  std::int32_t max_tokens = 256;
  bool system = true;  // chats begin with the format's standard system message
  std::string date;    // which mentions this date, or none
  text::ReasoningEffort effort = text::ReasoningEffort::medium;
};

// The longest line, and how deep it may nest.
inline constexpr ParseLimits kLineLimits = {.max_header_bytes = std::uint64_t{1} << 26, .max_depth = 16};
inline constexpr std::size_t kMaxAnswers = 1024;  // of one line

// The id of a line that is JSON; with an empty text where it has none that can be used.
BatchId batch_id(const nlohmann::json& line);

// Thread rule: one thread. The engine outlives it.
class BatchReader {
 public:
  BatchReader(const Engine& engine, BatchDefaults defaults);

  // Errors name the field and the value: malformed, limit_exceeded, invalid_argument (a field that is wrong, missing or unknown),
  // unsupported (a field that Plumb knows and cannot do; a chat with a model that knows no turns). `out` holds what is known of
  // the line in any case: number, id, form.
  Status read(std::uint64_t number, std::string_view text, BatchRequest& out) const;

  const std::optional<text::HarmonyTokens>& harmony() const { return harmony_; }

 private:
  Status read_plain(const nlohmann::json& line, BatchRequest& out) const;
  Status read_openai(const nlohmann::json& line, BatchRequest& out) const;
  void read_completion(JsonFields& body, Request request, BatchRequest& out) const;
  void read_chat(JsonFields& body, Request request, BatchRequest& out) const;
  Result<Request> render(JsonFields& body, const text::Conversation& conversation, Request request) const;
  Request defaults() const;

  const Engine& engine_;
  BatchDefaults defaults_;
  std::optional<text::HarmonyTokens> harmony_;
};

// The messages of a chat body as a conversation; the instructions before the first other message become the developer message.
// Errors go into `body`.
void read_messages(JsonFields& body, text::Conversation& out);

}  // namespace plumb::app
