#include "text/stop.h"

#include <gtest/gtest.h>

#include <random>

namespace plumb::text {
namespace {

StopMatcher matcher(std::vector<std::string> stops) {
  auto made = StopMatcher::create(std::move(stops));
  EXPECT_TRUE(made.ok()) << made.error().to_string();
  return *std::move(made);
}

TEST(StopMatcher, HoldsBackOnlyWhatMayBecomeAStop) {
  StopMatcher stop = matcher({"</s>", "END"});
  EXPECT_EQ(stop.feed("hello <"), "hello ");
  EXPECT_EQ(stop.feed("/b>"), "</b>");
  EXPECT_EQ(stop.feed("E"), "");
  EXPECT_EQ(stop.feed("N"), "");
  EXPECT_EQ(stop.held(), 2U);
  EXPECT_EQ(stop.feed("EN"), "EN");
  EXPECT_EQ(stop.feed("D and more"), "");
  EXPECT_TRUE(stop.stopped());
  EXPECT_EQ(stop.found(), "END");
  EXPECT_EQ(stop.feed("x"), "");
  EXPECT_EQ(stop.flush(), "");
}

TEST(StopMatcher, WithoutStopsEverythingPasses) {
  StopMatcher stop = matcher({});
  EXPECT_EQ(stop.feed("abc"), "abc");
  EXPECT_EQ(stop.flush(), "");
}

TEST(StopMatcher, TheFirstToBeCompleteWinsAndOfTwoTheLonger) {
  StopMatcher inner = matcher({"abcd", "bc"});
  EXPECT_EQ(inner.feed("xabcd"), "xa");
  EXPECT_EQ(inner.found(), "bc");
  StopMatcher longer = matcher({"bc", "abc"});
  EXPECT_EQ(longer.feed("xabc"), "x");
  EXPECT_EQ(longer.found(), "abc");
}

TEST(StopMatcher, FlushGivesWhatWasHeld) {
  StopMatcher stop = matcher({"\n\n"});
  EXPECT_EQ(stop.feed("a\n"), "a");
  EXPECT_EQ(stop.flush(), "\n");
  EXPECT_EQ(stop.feed("\nb"), "\nb");  // anew: the newline before is gone
}

TEST(StopMatcher, RefusesOddRequests) {
  EXPECT_EQ(StopMatcher::create({"a", ""}).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(StopMatcher::create({std::string(5000, 'x')}).error().code, ErrorCode::limit_exceeded);
  EXPECT_EQ(StopMatcher::create(std::vector<std::string>(65, "x")).error().code, ErrorCode::limit_exceeded);
}

// Against the definition: the first place where a stop string ends, and the longest that ends there.
TEST(StopMatcher, AgreesWithTheDefinitionHoweverTextIsCut) {
  std::mt19937 random(41);
  const auto word = [&random](std::size_t longest) {
    std::string text;
    for (std::size_t length = 1 + random() % longest; length > 0; --length) text.push_back(static_cast<char>('a' + random() % 2));
    return text;
  };
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::string> stops;
    for (std::size_t count = random() % 4; count > 0; --count) stops.push_back(word(5));
    const std::string text = word(30);
    std::size_t cut = std::string::npos;
    for (std::size_t end = 1; end <= text.size() && cut == std::string::npos; ++end) {
      for (const std::string& stop : stops) {
        if (std::string_view(text).substr(0, end).ends_with(stop)) cut = std::min(cut, end - stop.size());
      }
    }
    StopMatcher stop = matcher(stops);
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t length = 1 + random() % 4;
      out += stop.feed(std::string_view(text).substr(at, length));
      at += length;
      if (stop.stopped()) break;
      const std::string_view seen = std::string_view(text).substr(0, at);
      std::size_t longest = 0;  // what some stop string begins with
      for (const std::string& one : stops) {
        for (std::size_t n = 1; n < one.size(); ++n) {
          if (seen.ends_with(std::string_view(one).substr(0, n))) longest = std::max(longest, n);
        }
      }
      ASSERT_EQ(stop.held(), longest);
    }
    out += stop.flush();
    ASSERT_EQ(out, text.substr(0, cut)) << text;
    ASSERT_EQ(stop.stopped(), cut != std::string::npos);
  }
}

TEST(StopMatcher, ALongStopAgainstItsOwnLettersIsLinear) {
  StopMatcher stop = matcher({std::string(4000, 'a') + "b"});
  const std::string text(1 << 20, 'a');
  EXPECT_EQ(stop.feed(text).size(), text.size() - 4000);
  EXPECT_EQ(stop.flush().size(), 4000U);
}

}  // namespace
}  // namespace plumb::text
