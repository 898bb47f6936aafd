#include <algorithm>

#include "text/harmony.h"
#include "text/typescript.h"

namespace plumb::text {
namespace {

constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant", "tool"};
constexpr std::array<std::string_view, 3> kEfforts = {"low", "medium", "high"};

template <class Enum, std::size_t N>
std::optional<Enum> named(const std::array<std::string_view, N>& names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Enum>(found - names.begin());
}

std::string_view spelling(HarmonyToken token) { return kHarmonySpellings[static_cast<std::size_t>(token)]; }

// A rendered conversation: the format's tokens, and the text between them.
struct Segment {
  std::optional<HarmonyToken> token;  // set: this token; empty: `text`
  std::string text;
};

class Renderer {
 public:
  void token(HarmonyToken token) { segments_.push_back({token, {}}); }
  // Neighbouring texts become one, because the vocabulary may have tokens across their seam.
  void text(std::string_view text) {
    if (text.empty()) return;
    if (segments_.empty() || segments_.back().token) segments_.push_back({std::nullopt, {}});
    segments_.back().text += text;
  }
  std::vector<Segment> take() { return std::move(segments_); }

  Status message(const Message& message) {
    for (const auto& [field, value] : {std::pair{"name", &message.name}, {"recipient", &message.recipient},
                                       {"channel", &message.channel}, {"content_type", &message.content_type}}) {
      if (value->find_first_of(" \t\r\n\v\f") != std::string::npos) {
        return fail(ErrorCode::invalid_argument, "must not have white space in it", "message", field, *value);
      }
    }
    token(HarmonyToken::start);
    if (message.role == Role::tool) {
      if (message.name.empty()) return fail(ErrorCode::invalid_argument, "a tool message needs its tool's name", "message", "name");
      text(message.name);
    } else {
      text(to_string(message.role));
      if (!message.name.empty()) text(":" + message.name);
    }
    if (!message.recipient.empty()) text(" to=" + message.recipient);
    if (!message.channel.empty()) {
      token(HarmonyToken::channel);
      text(message.channel);
    }
    if (!message.content_type.empty()) {
      text(" ");
      std::string_view type = message.content_type;
      const std::string_view mark = spelling(HarmonyToken::constrain);
      if (type.starts_with(mark)) {
        token(HarmonyToken::constrain);
        type.remove_prefix(mark.size());
      }
      text(type);
    }
    token(HarmonyToken::message);
    text(message.content);
    const bool call = message.role == Role::assistant && !message.recipient.empty();
    token(call ? HarmonyToken::call : HarmonyToken::end);
    return {};
  }

 private:
  std::vector<Segment> segments_;
};

// One past the last final message that a user message follows: reasoning before it belongs to finished turns.
std::size_t finished_until(const std::vector<Message>& messages) {
  bool answered = false;
  for (std::size_t i = messages.size(); i-- > 0;) {
    if (messages[i].role == Role::user) answered = true;
    if (answered && messages[i].role == Role::assistant && messages[i].channel == "final") return i + 1;
  }
  return 0;
}

Result<std::vector<Segment>> render(const Conversation& conversation, const RenderOptions& options, const ParseLimits& limits) {
  Renderer renderer;
  const bool with_functions = conversation.developer && !conversation.developer->functions.empty();
  if (conversation.system) {
    PLUMB_ASSIGN(const std::string text, system_text(*conversation.system, with_functions, limits));
    PLUMB_TRY(renderer.message({.role = Role::system, .content = text}));
  }
  if (conversation.developer) {
    PLUMB_ASSIGN(const std::string text, developer_text(*conversation.developer, limits));
    PLUMB_TRY(renderer.message({.role = Role::developer, .content = text}));
  }
  const std::size_t finished = options.drop_finished_reasoning ? finished_until(conversation.messages) : 0;
  for (std::size_t i = 0; i < conversation.messages.size(); ++i) {
    const Message& message = conversation.messages[i];
    if (i < finished && message.role == Role::assistant && message.channel == "analysis") continue;
    PLUMB_TRY(renderer.message(message));
  }
  if (options.next) {
    renderer.token(HarmonyToken::start);
    renderer.text(to_string(*options.next));
  }
  return renderer.take();
}

// Sections stand apart by an empty line.
void section(std::string& out, std::string_view text) { out.append(out.empty() ? "" : "\n\n").append(text); }

}  // namespace

std::string_view to_string(Role role) { return kRoles[static_cast<std::size_t>(role)]; }
std::optional<Role> role_from(std::string_view name) { return named<Role>(kRoles, name); }
std::string_view to_string(ReasoningEffort effort) { return kEfforts[static_cast<std::size_t>(effort)]; }
std::optional<ReasoningEffort> reasoning_effort_from(std::string_view name) { return named<ReasoningEffort>(kEfforts, name); }

Result<HarmonyTokens> HarmonyTokens::find(const Tokenizer& tokenizer) {
  HarmonyTokens tokens;
  for (std::size_t i = 0; i < kHarmonySpellings.size(); ++i) {
    const std::optional<std::int32_t> id = tokenizer.special_id(kHarmonySpellings[i]);
    if (!id || !tokenizer.is_special(*id)) {
      return fail(ErrorCode::not_found, "the vocabulary has no such special token", "tokenizer", "harmony",
                  std::string(kHarmonySpellings[i]));
    }
    tokens.ids_[i] = *id;
  }
  tokens.end_of_text_ = tokenizer.special_id("<|endoftext|>");
  return tokens;
}

std::optional<HarmonyToken> HarmonyTokens::token(std::int32_t id) const {
  const auto found = std::find(ids_.begin(), ids_.end(), id);
  if (found == ids_.end()) return std::nullopt;
  return static_cast<HarmonyToken>(found - ids_.begin());
}

std::vector<std::int32_t> HarmonyTokens::stops() const {
  std::vector<std::int32_t> stops = {id(HarmonyToken::ret), id(HarmonyToken::call)};
  if (end_of_text_) stops.push_back(*end_of_text_);
  return stops;
}

Result<std::string> system_text(const SystemMessage& system, bool with_functions, const ParseLimits& limits) {
  std::string out = system.identity + "\nKnowledge cutoff: " + system.knowledge_cutoff;
  if (!system.current_date.empty()) out += "\nCurrent date: " + system.current_date;
  section(out, "Reasoning: " + std::string(to_string(system.effort)));
  if (!system.tools.empty()) section(out, "# Tools");
  for (const ToolNamespace& tools : system.tools) {
    PLUMB_ASSIGN(const std::string text, tool_section(tools, limits));
    section(out, text);
  }
  if (!system.channels.empty()) {
    std::string channels;
    for (const std::string& channel : system.channels) channels.append(channels.empty() ? "" : ", ").append(channel);
    section(out, "# Valid channels: " + channels + ". Channel must be included for every message.");
    if (with_functions) out += "\nCalls to these tools must go to the commentary channel: 'functions'.";
  }
  return out;
}

Result<std::string> developer_text(const DeveloperMessage& developer, const ParseLimits& limits) {
  std::string out;
  if (!developer.instructions.empty()) section(out, "# Instructions\n\n" + developer.instructions);
  if (!developer.functions.empty()) {
    PLUMB_ASSIGN(const std::string text, tool_section({"functions", "", developer.functions}, limits));
    section(out, "# Tools\n\n" + text);
  }
  if (!developer.response_formats.empty()) section(out, "# Response Formats");
  for (const ResponseFormat& format : developer.response_formats) {
    section(out, "## " + format.name);
    section(out, (format.description.empty() ? "" : "// " + format.description + "\n") + format.schema);
  }
  return out;
}

Result<std::vector<std::int32_t>> render_ids(const Tokenizer& tokenizer, const HarmonyTokens& tokens,
                                             const Conversation& conversation, const RenderOptions& options,
                                             const ParseLimits& limits) {
  PLUMB_ASSIGN(const std::vector<Segment> segments, render(conversation, options, limits));
  std::vector<std::int32_t> ids;
  for (const Segment& segment : segments) {
    if (segment.token) {
      ids.push_back(tokens.id(*segment.token));
      continue;
    }
    PLUMB_ASSIGN(const std::vector<std::int32_t> part, tokenizer.encode(segment.text));
    ids.insert(ids.end(), part.begin(), part.end());
  }
  return ids;
}

Result<std::string> render_text(const Conversation& conversation, const RenderOptions& options, const ParseLimits& limits) {
  PLUMB_ASSIGN(const std::vector<Segment> segments, render(conversation, options, limits));
  std::string out;
  for (const Segment& segment : segments) out += segment.token ? spelling(*segment.token) : std::string_view(segment.text);
  return out;
}

std::vector<std::int32_t> message_starts(std::span<const std::int32_t> ids, const HarmonyTokens& tokens) {
  std::vector<std::int32_t> starts;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == tokens.id(HarmonyToken::start)) starts.push_back(static_cast<std::int32_t>(i));
  }
  return starts;
}

}  // namespace plumb::text
