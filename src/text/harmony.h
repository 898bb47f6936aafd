// The harmony chat format of gpt-oss: messages as plain values, and their rendering.
//
// A message is <|start|>header<|message|>content<|end|>. The header is the role, " to=RECIPIENT" when there is one,
// <|channel|>CHANNEL, and a content type. Assistant messages use the channels analysis (reasoning), commentary (tool calls
// and what is said around them) and final (the answer). A call to a tool ends in <|call|> and a sampled answer in <|return|>;
// in a history <|return|> is written as <|end|>.
//
// Reasoning of finished turns is left out: an analysis message is dropped when a final message follows it and a user message
// follows that. Reasoning of the running turn stays, so that it survives the tool calls in it.
//
// Thread rule: values and pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/parse_limits.h"
#include "base/status.h"
#include "text/tokenizer.h"

namespace plumb::text {

enum class Role : std::uint8_t { system, developer, user, assistant, tool };
std::string_view to_string(Role role);
std::optional<Role> role_from(std::string_view name);

struct Message {
  Role role = Role::user;
  std::string name;          // of a tool ("functions.get_weather", required there) or of a speaker; may be empty
  std::string recipient;     // "functions.get_weather", or "assistant" from a tool; empty: everyone
  std::string channel;       // "analysis", "commentary", "final", or empty
  std::string content_type;  // "json", "code"; "<|constrain|>json" when marked with the token
  std::string content;

  bool operator==(const Message&) const = default;
};

struct Tool {
  std::string name;
  std::string description;
  std::string parameters;  // a JSON schema; empty: no parameters
};

struct ToolNamespace {
  std::string name;
  std::string description;
  std::vector<Tool> tools;  // may be empty: a built-in tool that its description explains
};

enum class ReasoningEffort : std::uint8_t { low, medium, high };
std::string_view to_string(ReasoningEffort effort);
std::optional<ReasoningEffort> reasoning_effort_from(std::string_view name);

// What a system message says. Text chosen by a user belongs in the developer message.
struct SystemMessage {
  std::string identity = "You are ChatGPT, a large language model trained by OpenAI.";
  std::string knowledge_cutoff = "2024-06";
  std::string current_date;  // "2025-06-28", from the caller; empty: not mentioned
  ReasoningEffort effort = ReasoningEffort::medium;
  std::vector<std::string> channels = {"analysis", "commentary", "final"};
  std::vector<ToolNamespace> tools;  // built-in ones
};

struct ResponseFormat {
  std::string name;
  std::string description;
  std::string schema;  // written as it is
};

struct DeveloperMessage {
  std::string instructions;
  std::vector<Tool> functions;
  std::vector<ResponseFormat> response_formats;
};

struct Conversation {
  std::optional<SystemMessage> system;
  std::optional<DeveloperMessage> developer;
  std::vector<Message> messages;
};

struct RenderOptions {
  bool drop_finished_reasoning = true;
  std::optional<Role> next = Role::assistant;  // begins a message of this role at the end, for the model to complete
};

// The tokens that give messages their shape, in this order everywhere.
enum class HarmonyToken : std::uint8_t { start, end, message, channel, constrain, ret, call };
inline constexpr std::array<std::string_view, 7> kHarmonySpellings = {
    "<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>"};

// Their ids in a vocabulary.
class HarmonyTokens {
 public:
  // Errors: not_found, naming the first spelling that is not a special token of the vocabulary.
  static Result<HarmonyTokens> find(const Tokenizer& tokenizer);

  std::int32_t id(HarmonyToken token) const { return ids_[static_cast<std::size_t>(token)]; }
  std::optional<HarmonyToken> token(std::int32_t id) const;
  // <|endoftext|>, when the vocabulary has it.
  std::optional<std::int32_t> end_of_text() const { return end_of_text_; }
  // Ids at which generation stops: <|return|>, <|call|> and <|endoftext|>, and not <|end|>, after which more messages come.
  std::vector<std::int32_t> stops() const;

 private:
  std::array<std::int32_t, kHarmonySpellings.size()> ids_{};
  std::optional<std::int32_t> end_of_text_;
};

// The text of a system or developer message. `with_functions`: the developer message lists functions.
// Errors: those of a tool's schema (malformed, limit_exceeded), which name the tool.
Result<std::string> system_text(const SystemMessage& system, bool with_functions, const ParseLimits& limits = {});
Result<std::string> developer_text(const DeveloperMessage& developer, const ParseLimits& limits = {});

// The conversation as ids. Only the format's own tokens become special ids: a user's "<|end|>" stays text.
// Errors: invalid_argument (a name, recipient, channel or content type with white space in it, a tool message without a
// name), those of developer_text and of Tokenizer::encode.
Result<std::vector<std::int32_t>> render_ids(const Tokenizer& tokenizer, const HarmonyTokens& tokens,
                                             const Conversation& conversation, const RenderOptions& options = {},
                                             const ParseLimits& limits = {});

// Where the messages of a rendered conversation begin, ascending: the places where another conversation, or the next turn of this
// one (which drops old reasoning), may part from it.
std::vector<std::int32_t> message_starts(std::span<const std::int32_t> ids, const HarmonyTokens& tokens);

// The same as text, for people and tests: there a user's "<|end|>" and the format's own look alike.
Result<std::string> render_text(const Conversation& conversation, const RenderOptions& options = {},
                                const ParseLimits& limits = {});

}  // namespace plumb::text
