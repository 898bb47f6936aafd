// The messages of a chat body.
#include <nlohmann/json.hpp>

#include "base/status.h"
#include "batch_request.h"

namespace plumb::app {
namespace {

using nlohmann::json;

// A string, or an array of text parts that are put together.
void read_content(JsonFields& message, std::string& out) {
  const json* content = message.find("content");
  if (content == nullptr || content->is_string()) return message.read("content", out);
  if (!content->is_array()) return message.fail("content", "must be a string or an array of parts", *content);
  for (std::size_t i = 0; i < content->size(); ++i) {
    JsonFields part((*content)[i], message.subject(), message.name("content[" + std::to_string(i) + "]"));
    std::string type;
    std::string text;
    part.read("type", type);
    if (type != "text" && part.ok()) part.fail("type", "only text is understood", type, ErrorCode::unsupported);
    part.read("text", text);
    message.take(part.finish());
    out += text;
  }
}

void read_message(JsonFields& message, text::Conversation& out) {
  std::string role;
  std::string content;
  std::string name;
  message.read("role", role);
  read_content(message, content);
  message.read("name", name);
  if (role == "system" || role == "developer") {
    const text::DeveloperMessage instructions{.instructions = content};
    if (!out.messages.empty()) {
      const auto rendered = text::developer_text(instructions);
      if (!rendered.ok()) return message.take(rendered.error());
      out.messages.push_back({.role = text::Role::developer, .content = *rendered});
    } else if (out.developer) {
      out.developer->instructions += "\n\n" + content;
    } else {
      out.developer = instructions;
    }
  } else if (role == "user") {
    out.messages.push_back({.role = text::Role::user, .name = name, .content = content});
  } else if (role == "assistant") {
    std::string reasoning;
    message.read("reasoning", reasoning);
    message.read("reasoning_content", reasoning);
    message.find("refusal");
    if (const json* calls = message.find("tool_calls"); calls != nullptr && *calls != json::array()) {
      message.fail("tool_calls", "is not supported in a batch", *calls, ErrorCode::unsupported);
    }
    if (!reasoning.empty()) out.messages.push_back({.role = text::Role::assistant, .channel = "analysis", .content = reasoning});
    out.messages.push_back({.role = text::Role::assistant, .channel = "final", .content = content});
  } else if (role == "tool" || role == "function") {
    message.fail("role", "is not supported in a batch", role, ErrorCode::unsupported);
  } else {
    message.fail("role", "must be system, developer, user or assistant", role);
  }
}

}  // namespace

void read_messages(JsonFields& body, text::Conversation& out) {
  const json* messages = body.find("messages");
  if (messages == nullptr) return body.fail("messages", "is needed", json());
  if (!messages->is_array() || messages->empty()) return body.fail("messages", "must be an array that is not empty", *messages);
  for (std::size_t i = 0; i < messages->size() && body.ok(); ++i) {
    JsonFields message((*messages)[i], body.subject(), body.name("messages[" + std::to_string(i) + "]"));
    read_message(message, out);
    body.take(message.finish());
  }
}

}  // namespace plumb::app
