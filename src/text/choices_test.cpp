#include "text/choices.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "text/tiny_tokenizer.h"

namespace plumb::text {
namespace {

// Bytes, and the merges y+e, ye+s, n+o, no+t: so "yes" has four tokenisations.
TokenIndex index_of(const std::vector<std::pair<std::string, std::string>>& merges = {{"y", "e"}, {"ye", "s"}, {"n", "o"}, {"no", "t"}}) {
  return TokenIndex(tokenizer_from_json(tiny_tokenizer_json(merges).dump(), "tiny").value());
}

std::set<std::string> spellings(const TokenIndex& index, const Choices& choices, Choices::State state) {
  std::set<std::string> all;
  for (const Choices::Step& step : choices.steps(state)) all.insert(std::string(index.tokenizer().token_bytes(step.token)));
  return all;
}

// Every sequence of tokens from `state` to the end of a choice.
void walk(const TokenIndex& index, const Choices& choices, Choices::State state, std::string said, std::multiset<std::string>& ends) {
  if (choices.complete(state)) ends.insert(said);
  for (const Choices::Step& step : choices.steps(state)) walk(index, choices, step.to, said + std::string(index.tokenizer().token_bytes(step.token)), ends);
}

TEST(TokenIndex, FindsTheTokensThatBeginWithBytesAndThoseThatEndThere) {
  const TokenIndex index = index_of();
  TokenIndex::Range range = index.all();
  EXPECT_TRUE(index.spelled(range).empty());
  range = index.narrow(range, 'y');
  ASSERT_EQ(index.spelled(range).size(), 1U);
  EXPECT_EQ(index.tokenizer().token_bytes(index.spelled(range)[0]), "y");
  EXPECT_EQ(range.end - range.begin, 3);  // y, ye, yes
  range = index.narrow(range, 'e');
  EXPECT_EQ(index.tokenizer().token_bytes(index.spelled(range)[0]), "ye");
  EXPECT_TRUE(index.narrow(range, 'x').empty());
  // Bytes above 127 sort as bytes, not as signed characters.
  EXPECT_EQ(index.narrow(index.all(), 0xC3).end - index.narrow(index.all(), 0xC3).begin, 1);
}

TEST(Choices, AllowEveryTokenisationAndNothingElse) {
  const TokenIndex index = index_of();
  const auto choices = Choices::compile(index, {"yes", "not", "no"}, true);
  ASSERT_TRUE(choices.ok()) << choices.error().to_string();
  EXPECT_EQ(spellings(index, *choices, Choices::kStart), (std::set<std::string>{"y", "ye", "yes", "n", "no", "not"}));
  std::multiset<std::string> ends;
  walk(index, *choices, Choices::kStart, "", ends);
  // y|e|s, ye|s, yes; n|o, no; and "not" as n|o|t, no|t, not.
  EXPECT_EQ(ends, (std::multiset<std::string>{"yes", "yes", "yes", "no", "no", "not", "not", "not"}));
  const Choices::State no = choices->step(Choices::kStart, *index.tokenizer().token_id("no"));
  EXPECT_TRUE(choices->complete(no));
  EXPECT_EQ(spellings(index, *choices, no), (std::set<std::string>{"t"}));
  EXPECT_EQ(choices->step(no, *index.tokenizer().token_id("y")), Choices::kNowhere);
}

// The special <|end|> is spelled <, |, e ... in a choice: the control token is not a way to say it.
TEST(Choices, AControlTokenIsNotText) {
  const TokenIndex index = index_of();
  const auto choices = Choices::compile(index, {"<|end|>"}, true);
  ASSERT_TRUE(choices.ok());
  EXPECT_EQ(spellings(index, *choices, Choices::kStart), (std::set<std::string>{"<"}));
}

// A vocabulary without the single bytes: "ab" and "cd" are tokens, and so is "abc", after which nothing can follow.
TEST(Choices, ATokenThatLeadsIntoADeadEndIsNotAllowed) {
  nlohmann::json json = tiny_tokenizer_json({{"a", "b"}, {"ab", "c"}, {"c", "d"}});
  nlohmann::json vocab = nlohmann::json::object();
  for (const char* token : {"ab", "abc", "cd"}) vocab[token] = vocab.size();
  json["model"]["vocab"] = vocab;
  json["model"]["merges"] = nlohmann::json::array();
  for (auto& added : json["added_tokens"]) added["id"] = 3 + added["id"].get<int>() % 2;
  const auto tokenizer = tokenizer_from_json(json.dump(), "tiny");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().to_string();
  const TokenIndex index(*tokenizer);
  const auto choices = Choices::compile(index, {"abcd"}, true);
  ASSERT_TRUE(choices.ok()) << choices.error().to_string();
  EXPECT_EQ(spellings(index, *choices, Choices::kStart), (std::set<std::string>{"ab"}));
  const auto unspeakable = Choices::compile(index, {"abcd", "abd"}, true);
  ASSERT_FALSE(unspeakable.ok());
  EXPECT_EQ(unspeakable.error().code, ErrorCode::unsupported);
  EXPECT_EQ(unspeakable.error().field, "choices[1]");
  EXPECT_EQ(unspeakable.error().value, "abd");
}

TEST(Choices, WhatCannotBeCompiledIsRefusedByName) {
  const TokenIndex index = index_of();
  struct Case {
    std::vector<std::string> choices;
    ErrorCode code;
    const char* field;
  };
  for (const Case& c : std::vector<Case>{{{}, ErrorCode::invalid_argument, "choices"},
                                         {{"a", ""}, ErrorCode::invalid_argument, "choices[1]"},
                                         {{"a", "b", "\xFF"}, ErrorCode::invalid_argument, "choices[2]"},
                                         {{std::string(1025, 'a')}, ErrorCode::limit_exceeded, "choices[0]"},
                                         {std::vector<std::string>(1025, "a"), ErrorCode::limit_exceeded, "choices"},
                                         {std::vector<std::string>(33, std::string(1000, 'a')), ErrorCode::limit_exceeded, "choices[32]"}}) {
    const auto compiled = Choices::compile(index, c.choices, true);
    ASSERT_FALSE(compiled.ok()) << c.field;
    EXPECT_EQ(compiled.error().code, c.code) << compiled.error().to_string();
    EXPECT_EQ(compiled.error().field, c.field);
    EXPECT_FALSE(compiled.error().value.empty());
  }
  EXPECT_TRUE(Choices::compile(index, {"a", "b"}, false).ok());
  const auto endless = Choices::compile(index, {"ab", "a"}, false);
  ASSERT_FALSE(endless.ok());
  EXPECT_EQ(endless.error().field, "choices[1]");
}

TEST(Choices, TheLargestListCompilesInBoundedTime) {
  const TokenIndex index = index_of({{" ", " "}, {"  ", "  "}, {"    ", "    "}, {"        ", "        "}});
  std::vector<std::string> texts;
  for (int i = 0; i < 32; ++i) texts.push_back(std::string(1, static_cast<char>('A' + i)) + std::string(1000, ' '));
  const auto choices = Choices::compile(index, texts, false);
  ASSERT_TRUE(choices.ok());
  EXPECT_EQ(choices->steps(Choices::kStart).size(), 32U);
  EXPECT_EQ(choices->steps(choices->steps(Choices::kStart)[0].to).size(), 5U);  // 1, 2, 4, 8 and 16 spaces
}

}  // namespace
}  // namespace plumb::text
