#include "text/harmony_parser.h"

#include <algorithm>
#include <array>

#include "text/utf8.h"

namespace plumb::text {
namespace {

constexpr std::string_view kSpace = " \t\r\n\v\f";

// Takes the next word off `text`, and the white space before it. Empty at the end.
std::string_view next_word(std::string_view& text) {
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) {
    text = {};
    return {};
  }
  const std::size_t end = std::min(text.find_first_of(kSpace, begin), text.size());
  const std::string_view word = text.substr(begin, end - begin);
  text.remove_prefix(end);
  return word;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kSpace);
  return begin == std::string_view::npos ? std::string_view{} : text.substr(begin);
}

// Takes bytes off the end that may still become a character.
std::string take_incomplete(std::string& bytes) {
  for (std::size_t length = 1; length <= std::min<std::size_t>(3, bytes.size()); ++length) {
    const std::string tail = bytes.substr(bytes.size() - length);
    if (!utf8_may_continue(tail)) continue;
    bytes.resize(bytes.size() - length);
    return tail;
  }
  return {};
}

constexpr std::string_view kTo = "to=";

// "user", "user:alice", or a tool's name.
void set_author(Message& header, std::string_view word) {
  const std::size_t colon = word.find(':');
  if (const auto role = role_from(word.substr(0, colon)); role && *role != Role::tool) {
    header.role = *role;
    header.name = colon == std::string_view::npos ? "" : word.substr(colon + 1);
  } else {
    header.role = Role::tool;
    header.name = word;
  }
}

}  // namespace

std::string_view to_string(MessageEnd end) {
  constexpr std::array<std::string_view, 5> kNames = {"end", "call", "return", "end_of_text", "unfinished"};
  return kNames[static_cast<std::size_t>(end)];
}

HarmonyParser::HarmonyParser(const Tokenizer& tokenizer, const HarmonyTokens& tokens, std::optional<Role> role)
    : tokenizer_(tokenizer), tokens_(tokens), decoder_(tokenizer, {.continues = true}) {
  if (role) begin_header(role);
}

void HarmonyParser::begin_header(std::optional<Role> role) {
  state_ = State::header;
  given_role_ = role;
  role_part_.clear();
  channel_part_.clear();
  has_channel_ = false;
}

void HarmonyParser::channel_mark() {
  if (has_channel_) ++malformed_;
  has_channel_ = true;
  channel_part_.clear();
}

void HarmonyParser::feed(std::int32_t id, std::vector<HarmonyEvent>& events) {
  if (const auto token = tokens_.token(id)) {
    structure(*token, events);
    return;
  }
  if (tokens_.end_of_text() == id) {
    end_marker(MessageEnd::end_of_text, events);
    return;
  }
  if (tokenizer_.is_special(id)) {
    ++malformed_;
    return;
  }
  if (state_ == State::content) {
    deliver(decoder_.feed(id), events);
    return;
  }
  if (state_ == State::between) {
    ++malformed_;
    begin_header(std::nullopt);
  }
  const std::string_view bytes = tokenizer_.has_token(id) ? tokenizer_.token_bytes(id) : kReplacement;
  (has_channel_ ? channel_part_ : role_part_).append(bytes);
  if (role_part_.size() + channel_part_.size() > kMaxHeaderBytes) open_message(true, events);
}

void HarmonyParser::structure(HarmonyToken token, std::vector<HarmonyEvent>& events) {
  switch (token) {
    case HarmonyToken::start:
      if (state_ == State::header) {
        ++malformed_;
        if (!trimmed(role_part_).empty() || has_channel_) {
          open_message(true, events);
          close_message(MessageEnd::unfinished, events);
        }
      } else if (state_ == State::content) {
        ++malformed_;
        close_message(MessageEnd::unfinished, events);
      }
      begin_header(std::nullopt);
      return;
    case HarmonyToken::channel:
      if (state_ == State::content) {
        ++malformed_;
        close_message(MessageEnd::unfinished, events);
        begin_header(last_role_ == Role::tool ? Role::assistant : last_role_);
      } else if (state_ == State::between) {
        ++malformed_;
        begin_header(Role::assistant);
      }
      channel_mark();
      return;
    case HarmonyToken::constrain:
      if (state_ == State::header) {
        (has_channel_ ? channel_part_ : role_part_).append(" ").append(kHarmonySpellings[static_cast<std::size_t>(token)]);
      } else {
        ++malformed_;
      }
      return;
    case HarmonyToken::message:
      if (state_ == State::content) {
        ++malformed_;
        return;
      }
      if (state_ == State::between) {
        ++malformed_;
        begin_header(Role::assistant);
      }
      open_message(false, events);
      return;
    case HarmonyToken::end: return end_marker(MessageEnd::end, events);
    case HarmonyToken::ret: return end_marker(MessageEnd::ret, events);
    case HarmonyToken::call: return end_marker(MessageEnd::call, events);
  }
}

void HarmonyParser::end_marker(MessageEnd reason, std::vector<HarmonyEvent>& events) {
  if (state_ == State::header && (!trimmed(role_part_).empty() || has_channel_)) open_message(true, events);
  if (state_ == State::content) {
    close_message(reason, events);
  } else if (reason != MessageEnd::end_of_text) {
    ++malformed_;  // an end without a message; <|endoftext|> may stand anywhere
  }
  state_ = State::between;
}

void HarmonyParser::open_message(bool broken, std::vector<HarmonyEvent>& events) {
  if (broken) ++malformed_;
  const std::string incomplete = broken ? take_incomplete(has_channel_ ? channel_part_ : role_part_) : std::string();
  const std::string role_text = utf8_repaired(role_part_);
  const std::string channel_text = utf8_repaired(channel_part_);
  const std::string_view constrain = kHarmonySpellings[static_cast<std::size_t>(HarmonyToken::constrain)];
  Message header;
  header.role = given_role_.value_or(Role::assistant);
  std::string_view left = role_text;

  // The author, unless it was given. Where the header broke off, a word that is no role begins the content.
  if (!given_role_) {
    std::string_view rest = left;
    const std::string_view word = next_word(rest);
    const bool known = role_from(word.substr(0, word.find(':'))).has_value();
    if (!word.empty() && !word.starts_with(kTo) && !word.starts_with(constrain) && (known || !broken)) {
      set_author(header, word);
      left = rest;
    } else if (!broken) {
      ++malformed_;  // a header without an author
    }
  }
  // What follows in either part: a recipient, and a content type.
  const auto take_words = [&](std::string_view& text) {
    for (;;) {
      std::string_view rest = text;
      std::string word(next_word(rest));
      if (word.empty()) return;
      if (word.starts_with(kTo)) {
        if (!header.recipient.empty()) ++malformed_;
        header.recipient = word.substr(kTo.size());
      } else if (broken && !word.starts_with(constrain)) {
        return;  // the content has begun
      } else {
        if (word == constrain) word += next_word(rest);
        if (!header.content_type.empty()) ++malformed_;
        header.content_type = word;
      }
      text = rest;
    }
  };
  take_words(left);
  if (has_channel_) {
    if (broken && !trimmed(left).empty()) ++malformed_;  // words before the channel that mean nothing: left out
    left = channel_text;
    std::string_view rest = left;
    const std::string_view word = next_word(rest);
    if (!word.empty() && !word.starts_with(kTo) && !word.starts_with(constrain)) {
      header.channel = word;
      left = rest;
    } else {
      ++malformed_;
    }
    take_words(left);
  }
  state_ = State::content;
  last_role_ = header.role;
  events.emplace_back(MessageStarted{std::move(header)});
  if (!broken) return;
  deliver(std::string(trimmed(left)), events);
  deliver(decoder_.feed_bytes(incomplete), events);
}

void HarmonyParser::close_message(MessageEnd reason, std::vector<HarmonyEvent>& events) {
  deliver(decoder_.flush(), events);
  events.emplace_back(MessageEnded{reason});
  state_ = State::between;
}

void HarmonyParser::finish(std::vector<HarmonyEvent>& events) {
  if (state_ == State::header && (!trimmed(role_part_).empty() || has_channel_)) open_message(true, events);
  if (state_ == State::content) close_message(MessageEnd::unfinished, events);
  state_ = State::between;
}

void HarmonyParser::deliver(std::string text, std::vector<HarmonyEvent>& events) {
  if (!text.empty()) events.emplace_back(TextDelta{std::move(text)});
}

ParsedMessages parse_messages(const Tokenizer& tokenizer, const HarmonyTokens& tokens, std::span<const std::int32_t> ids,
                              std::optional<Role> role) {
  HarmonyParser parser(tokenizer, tokens, role);
  std::vector<HarmonyEvent> events;
  for (const std::int32_t id : ids) parser.feed(id, events);
  parser.finish(events);
  ParsedMessages parsed;
  parsed.malformed = parser.malformed();
  for (HarmonyEvent& event : events) {
    if (auto* started = std::get_if<MessageStarted>(&event)) {
      parsed.messages.push_back(std::move(started->header));
    } else if (const auto* delta = std::get_if<TextDelta>(&event)) {
      parsed.messages.back().content += delta->text;
    } else {
      parsed.ends.push_back(std::get<MessageEnded>(event).reason);
    }
  }
  return parsed;
}

}  // namespace plumb::text
