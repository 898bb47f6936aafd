#include "text/harmony_parser.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "text/outside_data.h"
#include "text/utf8.h"

namespace plumb::text {
namespace {

using Ids = std::vector<std::int32_t>;

const Tokenizer& story() {
  static const Tokenizer tokenizer = [] {
    auto loaded = load_tokenizer_json(PLUMB_SOURCE_DIR "/models/story/tokenizer.json");
    EXPECT_TRUE(loaded.ok()) << loaded.error().to_string();
    return *loaded;
  }();
  return tokenizer;
}

const HarmonyTokens& tokens() {
  static const HarmonyTokens found = *HarmonyTokens::find(story());
  return found;
}

Ids encoded(std::string_view text) {
  auto ids = story().encode(text, {.parse_special = true});
  EXPECT_TRUE(ids.ok()) << ids.error().to_string();
  return *std::move(ids);
}

ParsedMessages parsed(std::string_view text, std::optional<Role> role = Role::assistant) {
  return parse_messages(story(), tokens(), encoded(text), role);
}

Message message(Role role, std::string channel, std::string content, std::string recipient = "", std::string type = "") {
  return {.role = role, .recipient = std::move(recipient), .channel = std::move(channel), .content_type = std::move(type),
          .content = std::move(content)};
}

TEST(HarmonyParser, ReadsACompletion) {
  const auto got = parsed("<|channel|>analysis<|message|>Easy.<|end|><|start|>assistant<|channel|>final<|message|>2 + 2 = 4.<|return|>");
  EXPECT_EQ(got.malformed, 0U);
  ASSERT_EQ(got.messages.size(), 2U);
  EXPECT_EQ(got.messages[0], message(Role::assistant, "analysis", "Easy."));
  EXPECT_EQ(got.messages[1], message(Role::assistant, "final", "2 + 2 = 4."));
  EXPECT_EQ(got.ends, (std::vector<MessageEnd>{MessageEnd::end, MessageEnd::ret}));
}

TEST(HarmonyParser, TheRecipientMayStandInEitherPlace) {
  const Message call = message(Role::assistant, "commentary", "{}", "functions.f", "<|constrain|>json");
  for (const std::string_view text : {"<|start|>assistant to=functions.f<|channel|>commentary <|constrain|>json<|message|>{}<|call|>",
                                      "<|start|>assistant to=functions.f<|channel|>commentary<|constrain|>json<|message|>{}<|call|>",
                                      "<|start|>assistant<|channel|>commentary to=functions.f<|constrain|>json<|message|>{}<|call|>",
                                      "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|> json<|message|>{}<|call|>"}) {
    const auto got = parsed(text, std::nullopt);
    EXPECT_EQ(got.malformed, 0U) << text;
    ASSERT_EQ(got.messages.size(), 1U) << text;
    EXPECT_EQ(got.messages[0], call) << text;
    EXPECT_EQ(got.ends[0], MessageEnd::call);
  }
}

TEST(HarmonyParser, ReadsToolRepliesAndNames) {
  const auto got = parsed("<|start|>functions.f to=assistant<|channel|>commentary<|message|>1<|end|><|start|>user:alice<|message|>hi<|end|>",
                          std::nullopt);
  EXPECT_EQ(got.malformed, 0U);
  ASSERT_EQ(got.messages.size(), 2U);
  Message reply = message(Role::tool, "commentary", "1", "assistant");
  reply.name = "functions.f";
  EXPECT_EQ(got.messages[0], reply);
  EXPECT_EQ(got.messages[1].role, Role::user);
  EXPECT_EQ(got.messages[1].name, "alice");
}

TEST(HarmonyParser, MendsAndCounts) {
  struct Case {
    std::string_view text;
    std::vector<Message> messages;
  };
  const Case cases[] = {
      {"I must refuse<|end|><|start|>assistant<|channel|>final<|message|>No.<|return|>",
       {message(Role::assistant, "", "I must refuse"), message(Role::assistant, "final", "No.")}},
      {"<|channel|>analysis I must refuse<|end|>", {message(Role::assistant, "analysis", "I must refuse")}},
      {"<|channel|>analysis<|message|>a<|channel|>final<|message|>b<|return|>",
       {message(Role::assistant, "analysis", "a"), message(Role::assistant, "final", "b")}},
      {"<|channel|>analysis<|message|>a<|start|>assistant<|channel|>final<|message|>b<|return|>",
       {message(Role::assistant, "analysis", "a"), message(Role::assistant, "final", "b")}},
      {"<|channel|>final<|message|>a<|message|>b<|constrain|>c<|pad|>d<|return|>", {message(Role::assistant, "final", "abcd")}},
      {"<|channel|>final<|message|>a<|end|>assistant<|channel|>final<|message|>b<|return|>",
       {message(Role::assistant, "final", "a"), message(Role::assistant, "final", "b")}},
      {"<|message|>a<|return|><|message|>b<|return|>", {message(Role::assistant, "", "a"), message(Role::assistant, "", "b")}},
      {"<|end|><|end|>", {}},
      {"<|start|><|message|>a<|end|>", {message(Role::assistant, "", "a")}},
      {"<|start|>user<|start|>user<|message|>a<|end|>", {message(Role::user, "", ""), message(Role::user, "", "a")}},
  };
  for (const Case& one : cases) {
    const auto got = parsed(one.text);
    EXPECT_EQ(got.messages, one.messages) << one.text;
    EXPECT_EQ(got.ends.size(), one.messages.size());
    EXPECT_GT(got.malformed, 0U) << one.text;
  }
}

TEST(HarmonyParser, AHeaderThatDoesNotEndBecomesContent) {
  std::string babble = "é";
  while (babble.size() < 2000) babble += "word é ";
  const auto got = parsed("<|channel|>" + babble);
  ASSERT_EQ(got.messages.size(), 1U);
  EXPECT_EQ(got.messages[0].channel, "éword");
  EXPECT_EQ(got.messages[0].content, babble.substr(babble.find(' ') + 1));
  EXPECT_EQ(got.ends[0], MessageEnd::unfinished);
  EXPECT_EQ(got.malformed, 1U);
}

TEST(HarmonyParser, ACharacterAcrossTheEndOfSuchAHeaderStaysWhole) {
  for (std::size_t shift = 1; shift <= 4; ++shift) {
    std::string babble(shift, 'x');
    babble += ' ';
    for (int i = 0; i < 300; ++i) babble += "\U0001FAE8";  // a token for each byte
    const auto got = parsed("<|channel|>" + babble);
    ASSERT_EQ(got.messages.size(), 1U);
    EXPECT_EQ(got.messages[0].content, babble.substr(shift + 1));
  }
}

TEST(HarmonyParser, EndOfTextEndsAMessage) {
  const auto got = parsed("<|channel|>final<|message|>a<|endoftext|><|endoftext|>");
  ASSERT_EQ(got.messages.size(), 1U);
  EXPECT_EQ(got.ends[0], MessageEnd::end_of_text);
  EXPECT_EQ(got.malformed, 0U);
}

TEST(HarmonyParser, DeliversTextAsItComesAndWhole) {
  HarmonyParser parser(story(), tokens(), std::nullopt);
  std::vector<HarmonyEvent> events;
  const auto feed = [&](std::string_view text) {
    for (const std::int32_t id : encoded(text)) parser.feed(id, events);
  };
  feed("<|start|>assistant<|message|>");
  ASSERT_EQ(events.size(), 1U);
  EXPECT_TRUE(parser.in_message());
  events.clear();
  feed("\xF0\x9F");
  EXPECT_TRUE(events.empty());
  feed("\x98\x80");
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(std::get<TextDelta>(events[0]).text, "😀");
  events.clear();
  feed("\xF0\x9F");
  feed("<|end|>");
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(std::get<TextDelta>(events[0]).text, "\uFFFD");
  EXPECT_EQ(std::get<MessageEnded>(events[1]).reason, MessageEnd::end);
}

TEST(HarmonyParser, AnyIdsGiveWellFormedMessages) {
  std::mt19937 random(31);
  const char* texts[] = {"assistant", "user", " to=functions.f", "analysis", "final", "commentary", " ", "\n", "json", ":", "é"};
  std::uint64_t messages = 0;
  std::uint64_t mended = 0;
  for (int round = 0; round < 20'000; ++round) {
    Ids ids;
    for (std::size_t steps = random() % 40; steps > 0; --steps) {
      switch (random() % 4) {
        case 0: ids.push_back(4086 + static_cast<std::int32_t>(random() % 10)); break;
        case 1: ids.push_back(tokens().id(static_cast<HarmonyToken>(random() % kHarmonySpellings.size()))); break;
        case 2: {
          const Ids some = encoded(texts[random() % std::size(texts)]);
          ids.insert(ids.end(), some.begin(), some.end());
          break;
        }
        default: ids.push_back(static_cast<std::int32_t>(random() % 4400) - 100); break;
      }
    }
    const std::optional<Role> role = random() % 2 == 0 ? std::optional(Role::assistant) : std::nullopt;
    HarmonyParser parser(story(), tokens(), role);
    std::vector<HarmonyEvent> events;
    for (const std::int32_t id : ids) parser.feed(id, events);
    parser.finish(events);
    bool open = false;
    for (const HarmonyEvent& event : events) {
      if (const auto* started = std::get_if<MessageStarted>(&event)) {
        ASSERT_FALSE(open);
        open = true;
        ++messages;
        for (const std::string* part : {&started->header.name, &started->header.recipient, &started->header.channel,
                                        &started->header.content_type}) {
          ASSERT_EQ(part->find_first_of(" \t\r\n\v\f"), std::string::npos);
          ASSERT_EQ(utf8_valid_prefix(*part), part->size());
        }
        ASSERT_TRUE(started->header.content.empty());
        ASSERT_TRUE(started->header.role != Role::tool || !started->header.name.empty());
      } else if (const auto* delta = std::get_if<TextDelta>(&event)) {
        ASSERT_TRUE(open);
        ASSERT_FALSE(delta->text.empty());
        ASSERT_EQ(utf8_valid_prefix(delta->text), delta->text.size());
      } else {
        ASSERT_TRUE(open);
        open = false;
      }
    }
    ASSERT_FALSE(open);
    mended += parser.malformed();
    // What was read can be written and read again, the same.
    const ParsedMessages once = parse_messages(story(), tokens(), ids, role);
    const auto written = render_ids(story(), tokens(), {{}, {}, once.messages}, {.drop_finished_reasoning = false, .next = std::nullopt});
    ASSERT_TRUE(written.ok()) << written.error().to_string();
    const ParsedMessages twice = parse_messages(story(), tokens(), *written, std::nullopt);
    ASSERT_EQ(twice.messages, once.messages) << "round " << round;
    ASSERT_EQ(twice.malformed, 0U) << "round " << round;
  }
  EXPECT_GT(messages, 20'000U);
  EXPECT_GT(mended, 20'000U);
}

TEST(HarmonyParser, ReadsTheReferenceToolCall) {
  PLUMB_NEEDS_VECTORS();
  PLUMB_NEEDS_VOCABULARY(std::string("gpt-oss"));
  const auto tokenizer = load_tokenizer_json(kVocabularyFolder + "gpt-oss.json");
  ASSERT_TRUE(tokenizer.ok());
  std::ifstream file(kVectorFolder + "harmony/test_simple_tool_call.txt");
  Ids ids;
  for (std::int32_t id = 0; file >> id;) ids.push_back(id);
  ASSERT_FALSE(ids.empty());
  const auto got = parse_messages(*tokenizer, *HarmonyTokens::find(*tokenizer), ids);
  ASSERT_EQ(got.messages.size(), 2U);
  EXPECT_EQ(got.messages[0], message(Role::assistant, "analysis",
                                     "User asks: \"What is the weather in Tokyo?\" We need to use lookup_weather tool."));
  EXPECT_EQ(got.messages[1], message(Role::assistant, "analysis", "{\"location\": \"Tokyo\"}", "lookup_weather", "code"));
}

}  // namespace
}  // namespace plumb::text
