// Reading harmony messages out of a stream of token ids.
//
// The parser never fails: whatever a model samples becomes well-formed messages, and what had to be mended is counted.
//   - the end of a message inside a header: what follows the role and channel is the content;
//   - a header that does not end within kMaxHeaderBytes: the same;
//   - text between messages: the header of a message whose <|start|> was left out;
//   - <|start|> or <|channel|> inside a content: the message ends (unfinished) and the next header begins;
//   - any other special token where it has no meaning: left out.
// Content is delivered as it comes, always whole and valid UTF-8 (U+FFFD for what is not).
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "text/harmony.h"
#include "text/stream_decoder.h"

namespace plumb::text {

enum class MessageEnd : std::uint8_t {
  end,          // <|end|>
  call,         // <|call|>: a tool is to be called
  ret,          // <|return|>: the answer is complete
  end_of_text,  // <|endoftext|>
  unfinished,   // the next message began, or the stream ended, before any of these
};
std::string_view to_string(MessageEnd end);

// Every message is one MessageStarted, any number of TextDelta, and one MessageEnded.
struct MessageStarted {
  Message header;  // its content is empty
};
struct TextDelta {
  std::string text;  // not empty
};
struct MessageEnded {
  MessageEnd reason = MessageEnd::end;
};
using HarmonyEvent = std::variant<MessageStarted, TextDelta, MessageEnded>;

class HarmonyParser {
 public:
  static constexpr std::size_t kMaxHeaderBytes = 512;  // role, recipient and channel are identifiers

  // `role`: the stream continues a message that was begun with <|start|> and this role, as a completion does. Without it the
  // stream begins with <|start|>. The tokenizer's data is kept alive.
  HarmonyParser(const Tokenizer& tokenizer, const HarmonyTokens& tokens, std::optional<Role> role = Role::assistant);

  // Appends what `id` brought about to `events`. Any id is allowed.
  void feed(std::int32_t id, std::vector<HarmonyEvent>& events);

  // The stream is over: ends an open message. Afterwards the parser waits for a new message.
  void finish(std::vector<HarmonyEvent>& events);

  // Things mended so far.
  std::uint64_t malformed() const { return malformed_; }
  bool in_message() const { return state_ == State::content; }

 private:
  enum class State : std::uint8_t { between, header, content };

  void begin_header(std::optional<Role> role);
  void channel_mark();
  void structure(HarmonyToken token, std::vector<HarmonyEvent>& events);
  // Ends a header at <|message|> (`rest` not wanted) or where it broke off (what is left over is content).
  void open_message(bool broken, std::vector<HarmonyEvent>& events);
  void close_message(MessageEnd reason, std::vector<HarmonyEvent>& events);
  void end_marker(MessageEnd reason, std::vector<HarmonyEvent>& events);
  void deliver(std::string text, std::vector<HarmonyEvent>& events);

  Tokenizer tokenizer_;
  HarmonyTokens tokens_;
  StreamDecoder decoder_;
  State state_ = State::between;
  std::optional<Role> given_role_;  // fixed before the header began
  Role last_role_ = Role::assistant;
  std::string role_part_;     // header bytes before <|channel|>
  std::string channel_part_;  // and after it; <|constrain|> is kept as its spelling
  bool has_channel_ = false;
  std::uint64_t malformed_ = 0;
};

// A whole list of ids at once.
struct ParsedMessages {
  std::vector<Message> messages;
  std::vector<MessageEnd> ends;  // one per message
  std::uint64_t malformed = 0;
};
ParsedMessages parse_messages(const Tokenizer& tokenizer, const HarmonyTokens& tokens, std::span<const std::int32_t> ids,
                              std::optional<Role> role = Role::assistant);

}  // namespace plumb::text
